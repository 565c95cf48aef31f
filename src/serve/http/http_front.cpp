// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/http_front.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/system/system_error.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "serve/http/front_state.hpp"
#include "serve/http/loop.hpp"
#include "serve/spin_time.hpp"
#include "sluice/base/error.hpp"

namespace sluice::serve {
namespace {

using boost::asio::ip::tcp;

constexpr std::chrono::milliseconds poll_time{5};

}  // namespace

class http_front::implementation {
public:
    implementation(server& models, http_port port, const http_options& options, log_sink log)
        : state_(std::make_shared<front_state>(models, options, std::move(log))), port_(port.number()) {
        if (port.sockets_.empty()) throw error(errc::invalid_argument, "the port was moved from");
        require_spin_time(options.spin_time);
        if (options.tls.is_wanted())
            state_->certificates = std::make_unique<certificate_watch>(options.tls, state_->log);
        try {
            const tcp protocol = port.is_v6_ ? tcp::v6() : tcp::v4();
            while (!port.sockets_.empty()) {
                loops_.push_back(std::make_shared<loop>(state_, protocol, port.sockets_.back()));
                port.sockets_.pop_back();
                loops_.back()->listen();
            }
        } catch (const boost::system::system_error& failure) {
            throw error(errc::io_failed, "cannot listen on " + port.name_ + ": " + failure.code().message());
        }
        if (options.spans)
            state_->spans = options.spans;
        else if (!options.otlp.empty())
            state_->spans = std::make_shared<span_file>(options.otlp, options.version, state_->log);
        for (const auto& each : loops_) each->start();
    }
    implementation(const implementation&) = delete;
    implementation& operator=(const implementation&) = delete;
    ~implementation() {
        drain(std::chrono::milliseconds(0));
        state_->loading.join();
        state_->drawing.join();
    }

    unsigned short port() const noexcept { return port_; }

    std::size_t drain(std::chrono::milliseconds at_most) {
        if (std::exchange(has_drained_, true)) return 0;
        const auto limit = loop::clock::now() + at_most;
        state_->models.begin_drain();
        state_->is_draining = true;
        if (at_most.count() != 0) {
            for (const auto& each : loops_) each->begin_drain();
            while (loop::clock::now() < limit && !is_empty()) std::this_thread::sleep_for(poll_time);
        }
        std::size_t cut = 0;
        for (const auto& each : loops_) cut += each->end();
        if (state_->spans && !state_->options.spans) state_->spans->end();  // the file is whole now
        state_->spans.reset();
        return cut;
    }

private:
    bool is_empty() const {
        for (const auto& each : loops_)
            if (!each->is_empty()) return false;
        return true;
    }

    std::shared_ptr<front_state> state_;
    std::vector<std::shared_ptr<loop>> loops_;
    unsigned short port_;
    bool has_drained_ = false;
};

bool http_supported() noexcept { return true; }
std::string why_no_http() { return {}; }

http_front::http_front(server& models, const http_options& options, log_sink log)
    : http_front(models, http_port(options), options, std::move(log)) {}
http_front::http_front(server& models, http_port port, const http_options& options, log_sink log)
    : made_(std::make_unique<implementation>(models, std::move(port), options, std::move(log))) {}
http_front::~http_front() = default;
unsigned short http_front::port() const noexcept { return made_->port(); }
std::size_t http_front::drain(std::chrono::milliseconds at_most) { return made_->drain(at_most); }

}  // namespace sluice::serve
