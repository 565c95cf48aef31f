// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/relay.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "serve/grpc/relayed_connection.hpp"

namespace sluice::serve {
namespace {

constexpr int look_milliseconds = 250;  // for handshakes that are late and memory that can be given back

// Whether nothing has come that was not read yet: a request may, while its connection still counts as idle.
bool has_nothing_to_read(int connection) noexcept {
    int bytes = 0;
    return ::ioctl(connection, FIONREAD, &bytes) == 0 && bytes == 0;
}

}  // namespace

grpc_relay::grpc_relay(options how)
    : options_(std::move(how)),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      wakes_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    epoll_event wake{.events = EPOLLIN, .data = {.fd = wakes_.get()}};
    if (!events_ || !wakes_ || ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, wakes_.get(), &wake) != 0)
        throw std::system_error(errno, std::generic_category(), "a relay for gRPC");
    thread_ = std::thread([this] { work(); });
}

grpc_relay::~grpc_relay() { end(); }

bool grpc_relay::take(io::file_descriptor client, io::file_descriptor to_grpc,
                      std::shared_ptr<connection_limits::place> place) {
    try {
        const auto context = options_.certificates ? options_.certificates->context() : nullptr;
        auto made = std::make_shared<relayed_connection>(std::move(client), std::move(to_grpc), std::move(place),
                                                         options_.budget, context,
                                                         http2_watch::clock::now() + options_.handshake_time);
        const std::lock_guard lock(mutex_);
        new_.push_back(std::move(made));
    } catch (const std::exception&) {
        return false;
    }
    wake();
    return true;
}

void grpc_relay::wake() noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(::write(wakes_.get(), &one, sizeof(one)) == sizeof(one));  // it cannot be full
}

bool grpc_relay::end_longest_idle() noexcept {
    std::unique_lock lock(mutex_);
    if (ends_) return false;
    has_to_make_room_ = true;
    has_made_room_ = false;
    wake();
    made_room_.wait(lock, [this] { return !has_to_make_room_; });
    return has_made_room_;
}

void grpc_relay::end() noexcept {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    wake();
    if (thread_.joinable()) thread_.join();
}

void grpc_relay::work() {
    std::array<epoll_event, 64> found{};
    auto next_look = http2_watch::clock::now();
    while (!ends_) {
        const int time = !again_.empty() ? 0 : connections_.empty() ? -1 : look_milliseconds;
        const int count = ::epoll_wait(events_.get(), found.data(), static_cast<int>(found.size()), time);
        for (int i = 0; i < count; ++i) {
            const int descriptor = found[static_cast<std::size_t>(i)].data.fd;
            if (descriptor == wakes_.get()) {
                adopt_new();
                continue;
            }
            const auto its = connections_.find(descriptor);
            if (its == connections_.end()) continue;
            // Its last bytes and its end are one change where both were there before the first look.
            const std::uint32_t what = found[static_cast<std::size_t>(i)].events;
            if ((what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) its->second->hang_up(descriptor);
            serve(std::shared_ptr(its->second));
        }
        for (const auto& each : std::exchange(again_, {})) serve(each);
        if (http2_watch::clock::now() < next_look) continue;
        next_look = http2_watch::clock::now() + std::chrono::milliseconds(look_milliseconds);
        look_at_times();
    }
    adopt_new();
    for (const auto& [descriptor, each] : connections_)
        if (descriptor == each->client()) each->finish(room_);
    connections_.clear();
}

void grpc_relay::adopt_new() {
    std::uint64_t ignored = 0;
    static_cast<void>(::read(wakes_.get(), &ignored, sizeof(ignored)));
    std::vector<std::shared_ptr<relayed_connection>> all;
    {
        const std::lock_guard lock(mutex_);
        all.swap(new_);
    }
    make_room();
    for (const auto& each : all) {
        bool is_watched = true;
        try {
            for (const int descriptor : {each->client(), each->to_grpc()}) {
                connections_[descriptor] = each;
                // Once for each change: a connection passes on all that it can.
                epoll_event what{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.fd = descriptor}};
                is_watched = is_watched && ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &what) == 0;
            }
        } catch (const std::bad_alloc&) {
            is_watched = false;
        }
        if (is_watched)
            serve(each);
        else
            drop(*each);
    }
}

void grpc_relay::make_room() noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (!has_to_make_room_) return;
    }
    std::shared_ptr<relayed_connection> longest;
    for (const auto& [descriptor, each] : connections_)
        if (each->is_idle() && has_nothing_to_read(each->client()) &&
            (!longest || each->last_used() < longest->last_used()))
            longest = each;
    const bool has_room = longest != nullptr;
    if (has_room) {
        longest->say_that_it_ends();
        drop(*longest);
        std::erase(again_, longest);
        longest.reset();  // with its place
    }
    const std::lock_guard lock(mutex_);
    has_made_room_ = has_room;
    has_to_make_room_ = false;
    made_room_.notify_all();
}

void grpc_relay::serve(const std::shared_ptr<relayed_connection>& one) {
    using state = relayed_connection::state;
    state now = state::ended;
    try {
        now = one->pump(room_);
        if (now == state::again) again_.push_back(one);
    } catch (const std::bad_alloc&) {
        now = state::ended;
    }
    if (now == state::abused) ++abusers_;
    if (now == state::ended || now == state::abused) drop(*one);
}

// Closing takes both descriptors from epoll.
void grpc_relay::drop(relayed_connection& one) noexcept {
    const int client = one.client(), to_grpc = one.to_grpc();
    one.finish(room_);
    connections_.erase(client);
    connections_.erase(to_grpc);
}

void grpc_relay::look_at_times() {
    const auto now = http2_watch::clock::now();
    std::vector<std::shared_ptr<relayed_connection>> late;
    for (const auto& [descriptor, each] : connections_) {
        if (descriptor != each->client()) continue;
        each->look_at_time(now);
        if (!each->is_late(now)) continue;
        try {
            late.push_back(each);
        } catch (const std::bad_alloc&) {
            break;  // the next look finds the others
        }
    }
    for (const auto& each : late) drop(*each);
}

}  // namespace sluice::serve
