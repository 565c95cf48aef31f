// SPDX-License-Identifier: Apache-2.0
#include "serve/tls/openssl_error.hpp"

#include <openssl/err.h>

#include <cerrno>
#include <system_error>

namespace sluice::serve {

std::string take_openssl_error() {
    const unsigned long first = ::ERR_get_error();
    ::ERR_clear_error();
    if (first == 0) return errno != 0 ? std::generic_category().message(errno) : "the connection has ended";
    if (const char* const reason = ::ERR_reason_error_string(first)) return reason;
    return "error " + std::to_string(first) + " of OpenSSL";
}

}  // namespace sluice::serve
