#include "cpu/executor.hpp"

#include "cpu/cpu_stream.hpp"

namespace sluice::cpu {

executor::executor(std::size_t workers) : workers_(workers) {
    threads_.reserve(workers);
    try {
        for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // the system gives no more threads: end those that there are
        close();
        throw;
    }
}

void executor::add_stream() {
    const std::lock_guard lock(mutex_);
    ready_.reserve(streams_ + 1);
    ++streams_;
}

void executor::schedule(cpu_stream& ready) noexcept {
    {
        const std::lock_guard lock(mutex_);
        ready_.push(&ready);
    }
    wake_.notify_one();
}

void executor::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        wake_.wait(lock, [this] { return closing_ || !ready_.empty(); });
        if (ready_.empty()) return;
        cpu_stream& next = *ready_.pop();
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
