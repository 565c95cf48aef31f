// SPDX-License-Identifier: Apache-2.0
// http_port: the address of a front end, bound and not yet listened on. A process binds a port that needs rights, gives
// the rights up, and only then reads models and takes requests:
//
//     const serve::http_options options{.address = "0.0.0.0", .port = 443};
//     serve::http_port port(options);
//     setuid(...);
//     ...
//     serve::http_front http(models, std::move(port), options);
//
// Until a front end takes it, connections to it are refused. Two processes may bind the same port so; the second to
// listen gets the error.
#pragma once

#include <string>
#include <vector>

namespace sluice::serve {

struct http_options;

class http_port {
public:
    // Binds options.address and options.port, with a socket for each of options.threads; see http_options for
    // shares_port. Throws error: invalid_argument for a text that is no address and for no threads, io_failed when the
    // address cannot be bound, unsupported when Sluice was built without HTTP. Costs a few calls of the system for each
    // socket.
    explicit http_port(const http_options& options);
    http_port(http_port&& from) noexcept;
    http_port& operator=(http_port&& from) noexcept;
    ~http_port();  // closes what no front end took

    // The number, also where the options said 0. 0 after a move from this.
    unsigned short number() const noexcept { return number_; }

private:
    friend class http_front;

    std::vector<int> sockets_;
    unsigned short number_ = 0;
    bool is_v6_ = false;
    std::string name_;  // for errors: "127.0.0.1, port 8000"
};

}  // namespace sluice::serve
