// SPDX-License-Identifier: Apache-2.0
// The descriptors that a worker process is given, in addition to the three that each process has.
#pragma once

namespace sluice::serve {

inline constexpr int given_control = 3;  // its end of the control channel
inline constexpr int given_memory = 4;   // of the hatches

}  // namespace sluice::serve
