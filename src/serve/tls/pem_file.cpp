// SPDX-License-Identifier: Apache-2.0
#include "serve/tls/pem_file.hpp"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "serve/tls/openssl_error.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t most_bytes = 4 << 20;  // a system's roots have 200 KiB

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why, errc code = errc::bad_file) {
    throw file_error(file, file_error::no_offset, "", why, code);
}

class open_file {
public:
    explicit open_file(const std::filesystem::path& path)
        : path_(path), number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {
        if (number_ == -1 || ::fstat(number_, &state_) != 0) {
            const int why = errno;
            if (number_ != -1) ::close(number_);
            refuse(path, "cannot be read: " + std::generic_category().message(why), errc::io_failed);
        }
    }
    open_file(const open_file&) = delete;  // it owns the descriptor
    open_file& operator=(const open_file&) = delete;
    ~open_file() { ::close(number_); }

    // Of the file that is open, so that no other process can exchange it between the look and the reading.
    void require_private() const {
        if (!S_ISREG(state_.st_mode)) return;
        if ((state_.st_mode & (S_IRWXO | S_IWGRP)) == 0) return;
        std::array<char, 8> mode{};
        std::snprintf(mode.data(), mode.size(), "%03o", static_cast<unsigned>(state_.st_mode & 0777));
        refuse(path_, std::string("a key must be readable by its owner and group only, and writable by its owner only; "
                                  "the mode of this file is ") +
                          mode.data() + " (chmod 600, or 640 for a group)");
    }

    std::string read() const {
        if (!S_ISREG(state_.st_mode)) refuse(path_, "this is no file");
        std::string text;
        std::array<char, 16384> part{};
        while (true) {
            const ssize_t got = ::read(number_, part.data(), part.size());
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) refuse(path_, "cannot be read: " + std::generic_category().message(errno), errc::io_failed);
            if (got == 0) return text;
            text.append(part.data(), static_cast<std::size_t>(got));
            if (text.size() > most_bytes) refuse(path_, "the file is too long for certificates or a key");
        }
    }

private:
    const std::filesystem::path& path_;
    int number_;
    struct stat state_{};
};

std::unique_ptr<BIO, openssl_deleter> reader_of(const std::string& text) {
    std::unique_ptr<BIO, openssl_deleter> made(::BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    if (made == nullptr) throw std::bad_alloc();
    return made;
}

// OpenSSL would ask at the terminal.
int no_passphrase(char*, int, int, void* was_asked) {
    *static_cast<bool*>(was_asked) = true;
    return -1;
}

std::string text_of(const ASN1_TIME* time) {
    const std::unique_ptr<BIO, openssl_deleter> to(::BIO_new(::BIO_s_mem()));
    if (to == nullptr || ::ASN1_TIME_print(to.get(), time) != 1) return "?";
    std::array<char, 64> text{};
    const int size = ::BIO_read(to.get(), text.data(), static_cast<int>(text.size()));
    return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "?";
}

}  // namespace

std::vector<certificate_ptr> read_certificates(const std::filesystem::path& file) {
    const std::string text = open_file(file).read();
    const auto from = reader_of(text);
    std::vector<certificate_ptr> found;
    ::ERR_clear_error();
    while (X509* const next = ::PEM_read_bio_X509(from.get(), nullptr, nullptr, nullptr)) found.emplace_back(next);
    const bool is_end = ERR_GET_REASON(::ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    const std::string why = take_openssl_error();
    if (!is_end) refuse(file, "the certificate number " + std::to_string(found.size() + 1) + " is broken: " + why);
    if (found.empty()) refuse(file, "the file has no certificate in PEM (-----BEGIN CERTIFICATE-----)");
    return found;
}

key_ptr read_key(const std::filesystem::path& file) {
    const open_file opened(file);
    opened.require_private();
    std::string text = opened.read();
    bool was_asked = false;
    key_ptr key;
    std::string why;
    {
        const auto from = reader_of(text);
        ::ERR_clear_error();
        key.reset(::PEM_read_bio_PrivateKey(from.get(), nullptr, no_passphrase, &was_asked));
        why = take_openssl_error();
    }
    ::OPENSSL_cleanse(text.data(), text.size());
    if (was_asked) refuse(file, "the key has a passphrase; give one without (openssl pkey -in FILE -out PLAIN)");
    if (key == nullptr) refuse(file, "the file has no private key in PEM: " + why);
    return key;
}

void require_in_time(const std::filesystem::path& file, const X509* certificate) {
    const ASN1_TIME* const begin = ::X509_get0_notBefore(certificate);
    const ASN1_TIME* const end = ::X509_get0_notAfter(certificate);
    if (::X509_cmp_current_time(end) <= 0) refuse(file, "the certificate has expired on " + text_of(end));
    if (::X509_cmp_current_time(begin) >= 0) refuse(file, "the certificate is not valid before " + text_of(begin));
}

}  // namespace sluice::serve
