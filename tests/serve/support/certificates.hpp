// SPDX-License-Identifier: Apache-2.0
// Certificates that `openssl` makes while the test runs, in a folder that goes away with it.
#pragma once

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "io/support/temporary_directory.hpp"

namespace sluice::serve::testing {

class certificates {
public:
    certificates() {
        authority("ca");
        authority("other-ca");
        issue("server", "ca", "IP:127.0.0.1,DNS:localhost");
        issue("client", "ca", "DNS:client");
        issue("stranger", "other-ca", "DNS:stranger");
    }

    std::filesystem::path certificate(const std::string& name) const { return folder_ / (name + ".pem"); }
    std::filesystem::path key(const std::string& name) const { return folder_ / (name + ".key"); }
    const io::testing::temporary_directory& folder() const { return folder_; }

    // A key and a certificate for these names, signed by an authority.
    void issue(const std::string& name, const std::string& by, const std::string& names) const {
        openssl("req -x509 " + fresh_key(name) + " -days 2 -subj /CN=" + name + " -addext subjectAltName=" + names +
                " -addext basicConstraints=critical,CA:FALSE -CA " + certificate(by).string() + " -CAkey " +
                key(by).string());
    }

    // The same certificate with times in seconds from now, signed with its own key.
    void date(const std::string& name, long begin, long end) const {
        const std::unique_ptr<std::FILE, int (*)(std::FILE*)> from(std::fopen(certificate(name).c_str(), "r"),
                                                                   std::fclose);
        const std::unique_ptr<X509, void (*)(X509*)> made(::PEM_read_X509(from.get(), nullptr, nullptr, nullptr),
                                                          ::X509_free);
        const std::unique_ptr<std::FILE, int (*)(std::FILE*)> keys(std::fopen(key(name).c_str(), "r"), std::fclose);
        const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> its_key(
            ::PEM_read_PrivateKey(keys.get(), nullptr, nullptr, nullptr), ::EVP_PKEY_free);
        ::X509_gmtime_adj(X509_getm_notBefore(made.get()), begin);
        ::X509_gmtime_adj(X509_getm_notAfter(made.get()), end);
        if (::X509_sign(made.get(), its_key.get(), ::EVP_sha256()) == 0) throw std::runtime_error("X509_sign");
        const std::unique_ptr<std::FILE, int (*)(std::FILE*)> to(std::fopen(certificate(name).c_str(), "w"),
                                                                 std::fclose);
        if (::PEM_write_X509(to.get(), made.get()) != 1) throw std::runtime_error("PEM_write_X509");
    }

    void openssl(const std::string& words) const {
        const std::string log = (folder_ / "log").string();
        if (std::system(("openssl " + words + " > " + log + " 2>&1").c_str()) != 0)
            throw std::runtime_error("openssl " + words + ":\n" + io::testing::read_file(log));
    }

private:
    std::string fresh_key(const std::string& name) const {
        return "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout " + key(name).string() + " -out " +
               certificate(name).string();
    }
    void authority(const std::string& name) const {
        openssl("req -x509 " + fresh_key(name) + " -days 2 -subj /CN=" + name);
    }

    io::testing::temporary_directory folder_;
};

// One set is enough for all tests of a program.
inline const certificates& shared_certificates() {
    static const certificates made;
    return made;
}

}  // namespace sluice::serve::testing
