#include "cpu/executor.hpp"

#include "cpu/cpu_stream.hpp"

namespace sluice::cpu {
namespace {

constexpr int looks_before_sleep = 50;

}  // namespace

executor::executor(std::size_t workers) : workers_(workers) {
    threads_.reserve(workers);
    try {
        for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // the system gives no more threads: end those that there are
        close();
        throw;
    }
}

executor::line& executor::add_stream(int priority) {
    const std::lock_guard lock(mutex_);
    auto at = lines_.begin();
    while (at != lines_.end() && at->priority < priority) ++at;
    if (at == lines_.end() || at->priority != priority) at = lines_.insert(at, line{priority, {}, 0});
    at->ready.reserve(at->streams + 1);
    ++at->streams;
    return *at;
}

void executor::schedule(cpu_stream& ready) noexcept {
    {
        const std::lock_guard lock(mutex_);
        ready.line().ready.push(&ready);
    }
    wake_.notify_one();
}

executor::line* executor::first_ready() noexcept {
    for (line& each : lines_) {
        if (!each.ready.empty()) return &each;
    }
    return nullptr;
}

void executor::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        line* from = nullptr;
        // A few looks before it sleeps: waking a thread costs more than most commands.
        for (int look = 0; look < looks_before_sleep && (from = first_ready()) == nullptr && !closing_; ++look) {
            lock.unlock();
            std::this_thread::yield();
            lock.lock();
        }
        wake_.wait(lock, [&] { return (from = first_ready()) != nullptr || closing_; });
        if (from == nullptr) return;
        cpu_stream& next = *from->ready.pop();
        lock.unlock();
        next.run();
        lock.lock();
    }
}

void executor::close() noexcept {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
    }
    wake_.notify_all();
    for (std::thread& each : threads_) each.join();
    threads_.clear();
}

}  // namespace sluice::cpu
