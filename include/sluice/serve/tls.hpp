// SPDX-License-Identifier: Apache-2.0
// tls_files: the files of a server that speaks TLS.
//
// All are in PEM. Sluice takes TLS from OpenSSL when it is built; tls_supported says whether that was there.
#pragma once

#include <filesystem>
#include <string>

namespace sluice::serve {

bool tls_supported() noexcept;  // whether Sluice was built with OpenSSL; costs O(1)
// Why it was not: "OpenSSL 3 (libssl-dev) was not found", "SLUICE_TLS=OFF"; empty when it was. Costs a copy of the
// text.
std::string why_no_tls();

struct tls_files {
    // The server's certificate, and after it those that lead to its root, if there are some between. Empty: no TLS.
    std::filesystem::path certificate = {};
    // Its private key, without a passphrase. Only its owner may write the file, and other users than its owner and
    // group may not read it.
    std::filesystem::path key = {};
    // A client must show a certificate that leads to one of these. Empty: it needs none.
    std::filesystem::path client_ca = {};

    // Whether TLS is asked for: any of the files is named. Costs O(1).
    bool is_wanted() const noexcept { return !certificate.empty() || !key.empty() || !client_ca.empty(); }
};

}  // namespace sluice::serve
