// SPDX-License-Identifier: Apache-2.0
// tls_context: what all connections of a server, or of a client, have in common: certificates, the key, and the rules.
//
// The rules: TLS 1.2 or 1.3; of 1.2 only suites with forward secrecy and authenticated encryption; no renegotiation, no
// compression, no early data.
//
// Thread safety: immutable once made; sessions are made on any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "serve/tls/tls_session.hpp"
#include "sluice/serve/tls.hpp"

struct ssl_ctx_st;

namespace sluice::serve {

// What a server speaks through TLS (ALPN): HTTP/1.1 where the client asks; HTTP/2, which gRPC's clients insist on.
enum class protocol_of_tls : unsigned char { http_1_1, http_2 };

class tls_context {
public:
    // Reads the files. Throws error: bad_file, with the file and what is wrong with it (no PEM, another key's
    // certificate, one that is expired, a key that others may read); invalid_argument when one of certificate and key
    // is missing; unsupported when Sluice was built without TLS.
    static std::shared_ptr<const tls_context> of_server(const tls_files& files,
                                                        protocol_of_tls speaks = protocol_of_tls::http_1_1);

    // `ca`: certificates that the server's must lead to; empty: those that the system trusts. `certificate`, `key`: of
    // this client; empty: it shows none. Throws as of_server does.
    static std::shared_ptr<const tls_context> of_client(const std::filesystem::path& ca,
                                                        const std::filesystem::path& certificate,
                                                        const std::filesystem::path& key);

    // For this socket; null: no memory. A client's session asks for `host` (a name or an address) and accepts only a
    // certificate for it.
    std::unique_ptr<tls_session> session(int socket, const std::string& host = {}) const;

private:
    struct deleter {
        void operator()(ssl_ctx_st* made) const noexcept;
    };
    explicit tls_context(bool is_server);

    std::unique_ptr<ssl_ctx_st, deleter> made_;
    bool is_server_;
};

}  // namespace sluice::serve
