// SPDX-License-Identifier: Apache-2.0
// What launches give to kernels that check their bounds, so that a GPU's error can name the access. See
// check_bounds.hpp.
#pragma once

#include <cstddef>
#include <string_view>

#include "sluice/base/detail/access.hpp"
#include "sluice/runtime/command.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice::detail {

// The notice of a launch on this stream, and room for it in the kernel's shared memory. One that is not valid when the
// device is no GPU or has no such room. `name` is never freed.
access_notice make_notice(stream on, std::string_view name, std::size_t& shared_bytes);

inline namespace SLUICE_LAUNCH_ABI {

// Adds the notice to a command, which points to this closure.
template <typename Closure>
void add_notice([[maybe_unused]] stream on, [[maybe_unused]] std::string_view name, [[maybe_unused]] Closure& closure,
                [[maybe_unused]] launch_command& command) {
#if SLUICE_CHECK_BOUNDS && defined(__CUDACC__)
    closure.notice = make_notice(on, name, command.shared_bytes);
#endif
}

// The limit on closures leaves the notice out, so that it is the same with and without checks.
template <typename Closure>
inline constexpr std::size_t largest_closure = 4096;
#if SLUICE_CHECK_BOUNDS && defined(__CUDACC__)
template <typename Closure>
requires requires(Closure& closure) { closure.notice; }
inline constexpr std::size_t largest_closure<Closure> = 4096 + sizeof(access_notice);
#endif

}  // namespace SLUICE_LAUNCH_ABI
}  // namespace sluice::detail
