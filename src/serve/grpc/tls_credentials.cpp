// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/tls_credentials.hpp"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/version_info.h>

#include <mutex>
#include <string>
#include <utility>

#include "sluice/base/error.hpp"

namespace sluice::serve {

// Later versions make credentials in another way, which no test here has tried.
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR <= 51
namespace {

class watched_credentials final : public grpc::ServerCredentials {
public:
    watched_credentials(std::shared_ptr<certificate_watch> watch, bool asks_clients)
        : watch_(std::move(watch)), asks_clients_(asks_clients) {}
    watched_credentials(const watched_credentials&) = delete;  // gRPC knows its address
    watched_credentials& operator=(const watched_credentials&) = delete;

    void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
        throw error(errc::unsupported, "these credentials look at no metadata");
    }

private:
    int AddPortToServer(const std::string& address, grpc_server* server) override {
        const auto asks = asks_clients_ ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                        : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
        grpc_server_credentials* const made = ::grpc_ssl_server_credentials_create_with_options(
            ::grpc_ssl_server_credentials_create_options_using_config_fetcher(asks, fetch, this));
        const int port = ::grpc_server_add_http2_port(server, address.c_str(), made);
        ::grpc_server_credentials_release(made);
        return port;
    }

    // Before each handshake.
    static grpc_ssl_certificate_config_reload_status fetch(void* self, grpc_ssl_server_certificate_config** to) {
        return static_cast<watched_credentials*>(self)->give(*to);
    }

    grpc_ssl_certificate_config_reload_status give(grpc_ssl_server_certificate_config*& to) noexcept {
        try {
            const std::lock_guard lock(mutex_);
            auto context = watch_->context();
            if (context == given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
            const std::unique_ptr<const tls_texts> texts = context->texts();
            const grpc_ssl_pem_key_cert_pair pair{texts->key.c_str(), texts->certificates.c_str()};
            // gRPC insists on certificates for clients, also where it asks for none: then it does not use them.
            const std::string& roots = texts->client_ca.empty() ? texts->certificates : texts->client_ca;
            to = ::grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
            given_ = std::move(context);
            return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
        } catch (const std::exception&) {  // no memory: the handshake continues with what there was
            return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
        }
    }

    const std::shared_ptr<certificate_watch> watch_;
    const bool asks_clients_;
    std::mutex mutex_;
    std::shared_ptr<const tls_context> given_;  // gRPC has it
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> tls_credentials(std::shared_ptr<certificate_watch> watch, bool asks_clients) {
    return std::make_shared<watched_credentials>(std::move(watch), asks_clients);
}
#else
std::shared_ptr<grpc::ServerCredentials> tls_credentials(std::shared_ptr<certificate_watch>, bool) {
    throw error(errc::unsupported, "TLS over gRPC needs gRPC up to 1.51; this Sluice was built with " +
                                       std::string(GRPC_CPP_VERSION_STRING));
}
#endif

}  // namespace sluice::serve
