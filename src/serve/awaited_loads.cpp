// SPDX-License-Identifier: Apache-2.0
#include "serve/awaited_loads.hpp"

#include <exception>
#include <utility>

namespace sluice::serve {

awaited_loads::awaited_loads(std::function<std::string(const std::string&)> load)
    : load_(std::move(load)), thread_([this] { run(); }) {}

void awaited_loads::end() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

bool awaited_loads::join(std::string_view name, const std::function<void()>& then) {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(name);
    if (found == waiting_.end()) return false;
    found->second.push_back(then);
    return true;
}

void awaited_loads::begin(std::string_view name, std::function<void()> then) {
    {
        const std::lock_guard lock(mutex_);
        const auto [at, is_new] = waiting_.try_emplace(std::string(name));
        try {
            at->second.push_back(std::move(then));
            if (is_new) order_.emplace_back(name);
        } catch (...) {
            if (is_new) waiting_.erase(at);
            throw;
        }
    }
    changed_.notify_all();
}

std::string awaited_loads::failure_of(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = failed_.find(name);
    return found == failed_.end() || clock::now() >= found->second.until ? std::string() : found->second.why;
}

// Called with the lock.
void awaited_loads::note(const std::string& name, std::string why) noexcept {
    if (why.empty()) {
        if (const auto found = failed_.find(name); found != failed_.end()) failed_.erase(found);
        return;
    }
    try {
        failed_.insert_or_assign(name, failure{std::move(why), clock::now() + retry_after});
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it is tried again at once
    }
}

void awaited_loads::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return ends_ || !order_.empty(); });
        if (ends_) break;
        const std::string name = std::move(order_.front());
        order_.pop_front();
        lock.unlock();
        std::string why = load_(name);
        lock.lock();
        note(name, std::move(why));
        const auto done = waiting_.extract(name);
        lock.unlock();
        if (!done.empty())
            for (const auto& then : done.mapped()) then();
        lock.lock();
    }
    lock.unlock();
    wake_all();
}

// Nothing is added any more.
void awaited_loads::wake_all() noexcept {
    for (const auto& [name, all] : waiting_)
        for (const auto& then : all) then();
}

}  // namespace sluice::serve
