// SPDX-License-Identifier: Apache-2.0
// Certificates and keys from files in PEM.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <filesystem>
#include <memory>
#include <vector>

namespace sluice::serve {

struct openssl_deleter {
    void operator()(X509* made) const noexcept { ::X509_free(made); }
    void operator()(EVP_PKEY* made) const noexcept { ::EVP_PKEY_free(made); }
    void operator()(BIO* made) const noexcept { ::BIO_free(made); }
};
using certificate_ptr = std::unique_ptr<X509, openssl_deleter>;
using key_ptr = std::unique_ptr<EVP_PKEY, openssl_deleter>;

// At least one. Throws file_error for a file that is not read, has none or has a broken one.
std::vector<certificate_ptr> read_certificates(const std::filesystem::path& file);
// Throws file_error for a file that others may read or write, is encrypted, or has no key.
key_ptr read_key(const std::filesystem::path& file);
// Throws file_error for a certificate whose time has not come or is over.
void require_in_time(const std::filesystem::path& file, const X509* certificate);

}  // namespace sluice::serve
