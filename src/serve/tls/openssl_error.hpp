// SPDX-License-Identifier: Apache-2.0
// The errors of OpenSSL as text.
#pragma once

#include <string>

namespace sluice::serve {

// The first error of this thread's queue, "wrong version number"; empties the queue.
std::string take_openssl_error();

}  // namespace sluice::serve
