// SPDX-License-Identifier: Apache-2.0
// A client over OpenSSL that does what a test says: it may be slow, silent, old or without a certificate.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "serve/support/raw_client.hpp"
#include "serve/tls/socket_bio.hpp"

namespace sluice::serve::testing {

struct tls_client_options {
    std::filesystem::path ca;
    std::filesystem::path certificate = {};  // empty: none
    std::filesystem::path key = {};
    int version = 0;        // TLS1_2_VERSION, ...; 0: what both know
    std::string alpn = {};  // "http/1.1"; empty: none is offered
    const char* suites = nullptr;
};

class tls_client {
public:
    tls_client(unsigned short port, const tls_client_options& options)
        : tcp_(port), context_(::SSL_CTX_new(::TLS_client_method()), ::SSL_CTX_free) {
        SSL_CTX* const to = context_.get();
        ::SSL_CTX_load_verify_file(to, options.ca.c_str());
        ::SSL_CTX_set_verify(to, SSL_VERIFY_PEER, nullptr);
        if (!options.certificate.empty()) {
            ::SSL_CTX_use_certificate_chain_file(to, options.certificate.c_str());
            ::SSL_CTX_use_PrivateKey_file(to, options.key.c_str(), SSL_FILETYPE_PEM);
        }
        ::SSL_CTX_set_security_level(to, 0);  // the server says what it accepts
        if (options.suites != nullptr) ::SSL_CTX_set_cipher_list(to, options.suites);
        SSL_CTX_set_min_proto_version(to, options.version != 0 ? options.version : TLS1_VERSION);
        SSL_CTX_set_max_proto_version(to, options.version);
        session_.reset(::SSL_new(to));
        if (!options.alpn.empty()) {
            const std::string list = static_cast<char>(options.alpn.size()) + options.alpn;
            ::SSL_set_alpn_protos(session_.get(), reinterpret_cast<const unsigned char*>(list.data()),
                                  static_cast<unsigned>(list.size()));
        }
        BIO* const socket = make_socket_bio(tcp_.socket());  // no SIGPIPE where the server has closed
        ::SSL_set_bio(session_.get(), socket, socket);
        ::SSL_set1_host(session_.get(), "localhost");
        ::ERR_clear_error();
        connected_ = ::SSL_connect(session_.get()) == 1;
        if (!connected_) note();
    }

    bool is_connected() const { return connected_; }
    // What OpenSSL says of the last call that failed.
    const std::string& failure() const { return failure_; }
    std::string version() const { return ::SSL_get_version(session_.get()); }
    std::string alpn() const {
        const unsigned char* chosen = nullptr;
        unsigned size = 0;
        ::SSL_get0_alpn_selected(session_.get(), &chosen, &size);
        return {reinterpret_cast<const char*>(chosen), size};
    }
    std::string name_of_server() const {
        const std::unique_ptr<X509, void (*)(X509*)> shown(::SSL_get1_peer_certificate(session_.get()), ::X509_free);
        if (shown == nullptr) return {};
        char name[100]{};
        ::X509_NAME_get_text_by_NID(::X509_get_subject_name(shown.get()), NID_commonName, name, sizeof(name));
        return name;
    }
    SSL* native() { return session_.get(); }
    raw_client& tcp() { return tcp_; }

    bool send(std::string_view text) {
        while (!text.empty()) {
            const int sent = ::SSL_write(session_.get(), text.data(), static_cast<int>(text.size()));
            if (sent <= 0) return note(), false;
            text.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }
    // close_notify: it sends no more.
    void end_of_input() { ::SSL_shutdown(session_.get()); }

    http_answer receive() {
        return read_answer(received_, [this] { return more(); });
    }
    http_answer ask(std::string_view text) {
        send(text);
        return receive();
    }
    // Whether the server ends the connection as TLS asks: with close_notify, and nothing before it.
    bool is_closed() {
        if (!received_.empty() || more()) return false;
        return (::SSL_get_shutdown(session_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
    }

private:
    bool more() {
        char text[65536];
        ::ERR_clear_error();
        const int got = ::SSL_read(session_.get(), text, sizeof(text));
        if (got <= 0) return note(), false;
        received_.append(text, static_cast<std::size_t>(got));
        return true;
    }
    void note() {
        const unsigned long code = ::ERR_get_error();
        const char* const reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
        failure_ = reason == nullptr ? "the connection has ended" : reason;
    }

    raw_client tcp_;
    std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
    std::unique_ptr<SSL, void (*)(SSL*)> session_{nullptr, ::SSL_free};
    std::string received_;
    std::string failure_;
    bool connected_ = false;
};

}  // namespace sluice::serve::testing
