// SPDX-License-Identifier: Apache-2.0
#include "serve/tls/tls_context.hpp"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <new>
#include <string_view>

#include "serve/tls/openssl_error.hpp"
#include "serve/tls/pem_file.hpp"
#include "serve/tls/socket_bio.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::serve {
namespace {

constexpr const char* suites_1_2 =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
constexpr std::array<unsigned char, 9> only_http_1_1{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
constexpr std::array<unsigned char, 3> only_http_2{2, 'h', '2'};
constexpr std::string_view session_room = "sluice";

[[noreturn]] void refuse_file(const std::filesystem::path& file, const std::string& why) {
    throw file_error(file, file_error::no_offset, "", why);
}

template <const auto& Spoken>
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                    unsigned offered_size, void*) {
    unsigned char* found = nullptr;
    const int result = ::SSL_select_next_proto(&found, size, Spoken.data(), static_cast<unsigned>(Spoken.size()),
                                               offered, offered_size);
    *chosen = found;
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

void use_certificate(SSL_CTX* to, const std::filesystem::path& certificate, const std::filesystem::path& key) {
    if (certificate.empty() || key.empty())
        throw error(errc::invalid_argument, "TLS needs both a certificate and its key");
    std::vector<certificate_ptr> chain = read_certificates(certificate);
    require_in_time(certificate, chain.front().get());
    const key_ptr its_key = read_key(key);
    if (::X509_check_private_key(chain.front().get(), its_key.get()) != 1) {
        ::ERR_clear_error();
        refuse_file(certificate, "the first certificate does not belong to the key in " + key.string());
    }
    if (::SSL_CTX_use_certificate(to, chain.front().get()) != 1) refuse_file(certificate, take_openssl_error());
    if (::SSL_CTX_use_PrivateKey(to, its_key.get()) != 1) refuse_file(key, take_openssl_error());
    for (std::size_t i = 1; i < chain.size(); ++i) {
        // With a reference of the context's own.
        if (SSL_CTX_add1_chain_cert(to, chain[i].get()) != 1) refuse_file(certificate, take_openssl_error());
    }
}

void trust(SSL_CTX* to, const std::filesystem::path& ca) {
    X509_STORE* const store = ::SSL_CTX_get_cert_store(to);
    for (const certificate_ptr& each : read_certificates(ca)) {
        if (::X509_STORE_add_cert(store, each.get()) != 1 || ::SSL_CTX_add_client_CA(to, each.get()) != 1)
            refuse_file(ca, take_openssl_error());
    }
}

bool is_address(const std::string& host) {
    std::array<unsigned char, 16> ignored{};
    return ::inet_pton(AF_INET, host.c_str(), ignored.data()) == 1 ||
           ::inet_pton(AF_INET6, host.c_str(), ignored.data()) == 1;
}

bool ask_for(SSL* session, const std::string& host) {
    if (is_address(host)) return ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(session), host.c_str()) == 1;
    ::SSL_set_hostflags(session, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set_tlsext_host_name(session, host.c_str()) == 1 && ::SSL_set1_host(session, host.c_str()) == 1;
}

}  // namespace

void tls_context::deleter::operator()(ssl_ctx_st* made) const noexcept { ::SSL_CTX_free(made); }

tls_context::tls_context(bool is_server)
    : made_(::SSL_CTX_new(is_server ? ::TLS_server_method() : ::TLS_client_method())), is_server_(is_server) {
    if (made_ == nullptr) throw std::bad_alloc();
    SSL_CTX* const to = made_.get();
    SSL_CTX_set_min_proto_version(to, TLS1_2_VERSION);
    ::SSL_CTX_set_cipher_list(to, suites_1_2);
    ::SSL_CTX_set_options(to, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(to,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    // A peer that sends nothing but messages of the protocol comes back to the loop after each of them.
    SSL_CTX_clear_mode(to, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_session_cache_mode(to, SSL_SESS_CACHE_OFF);  // tickets need no memory here
}

std::shared_ptr<const tls_context> tls_context::of_server(const tls_files& files, protocol_of_tls speaks) {
    const std::shared_ptr<tls_context> made(new tls_context(true));
    SSL_CTX* const to = made->made_.get();
    use_certificate(to, files.certificate, files.key);
    ::SSL_CTX_set_alpn_select_cb(
        to, speaks == protocol_of_tls::http_2 ? choose_protocol<only_http_2> : choose_protocol<only_http_1_1>, nullptr);
    ::SSL_CTX_set_session_id_context(to, reinterpret_cast<const unsigned char*>(session_room.data()),
                                     static_cast<unsigned>(session_room.size()));
    if (!files.client_ca.empty()) {
        trust(to, files.client_ca);
        ::SSL_CTX_set_verify(to, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    return made;
}

std::shared_ptr<const tls_context> tls_context::of_client(const std::filesystem::path& ca,
                                                          const std::filesystem::path& certificate,
                                                          const std::filesystem::path& key) {
    const std::shared_ptr<tls_context> made(new tls_context(false));
    SSL_CTX* const to = made->made_.get();
    if (!certificate.empty() || !key.empty()) use_certificate(to, certificate, key);
    if (ca.empty())
        ::SSL_CTX_set_default_verify_paths(to);
    else
        trust(to, ca);
    ::SSL_CTX_set_verify(to, SSL_VERIFY_PEER, nullptr);
    ::SSL_CTX_set_alpn_protos(to, only_http_1_1.data(), static_cast<unsigned>(only_http_1_1.size()));
    return made;
}

std::unique_ptr<tls_session> tls_context::session(int socket, const std::string& host) const {
    auto made = std::make_unique<tls_session>(::SSL_new(made_.get()));
    SSL* const session = made->native();
    if (session == nullptr) return nullptr;
    BIO* const way = make_socket_bio(socket);
    if (way == nullptr) return nullptr;
    ::SSL_set_bio(session, way, way);
    if (is_server_) {
        ::SSL_set_accept_state(session);
        return made;
    }
    ::SSL_set_connect_state(session);
    return ask_for(session, host) ? std::move(made) : nullptr;
}

}  // namespace sluice::serve
