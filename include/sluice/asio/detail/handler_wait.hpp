// SPDX-License-Identifier: Apache-2.0
// A wait with its handler. The handler is kept in memory of its associated allocator, which is deallocated before the
// handler is called. Until then its executor has work, so that io_context::run() does not return.
#pragma once

#include "sluice/asio/detail/requirements.hpp"

#include <atomic>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "sluice/asio/detail/wait_arguments.hpp"
#include "sluice/asio/detail/wait_service.hpp"

namespace sluice::detail {

// While it lives, the executor has work.
template <typename Executor>
class kept_work {
public:
    explicit kept_work(const Executor& target)
        : tracked_(boost::asio::prefer(target, boost::asio::execution::outstanding_work.tracked)) {}

private:
    std::decay_t<decltype(boost::asio::prefer(std::declval<const Executor&>(),
                                              boost::asio::execution::outstanding_work.tracked))>
        tracked_;
};
template <typename Executor>
requires(!boost::asio::execution::is_executor<Executor>::value)  // an executor of the Networking TS
class kept_work<Executor> {
public:
    explicit kept_work(const Executor& target) : guard_(target) {}

private:
    boost::asio::executor_work_guard<Executor> guard_;
};

template <typename Handler>
class kept_handler {
    using allocator = typename std::allocator_traits<
        boost::asio::associated_allocator_t<Handler>>::template rebind_alloc<kept_handler>;
    using memory = std::allocator_traits<allocator>;

    struct give_back {
        void operator()(kept_handler* kept) const noexcept {
            allocator from(boost::asio::get_associated_allocator(kept->handler));
            memory::destroy(from, kept);
            memory::deallocate(from, kept, 1);
        }
    };

public:
    using executor = boost::asio::associated_executor_t<Handler>;
    using owner = std::unique_ptr<kept_handler, give_back>;

    static owner make(Handler&& handler) {
        allocator from(boost::asio::get_associated_allocator(handler));
        kept_handler* const place = memory::allocate(from, 1);
        try {
            memory::construct(from, place, std::move(handler));
        } catch (...) {
            memory::deallocate(from, place, 1);
            throw;
        }
        return owner(place);
    }

    explicit kept_handler(Handler&& from)
        : handler(std::move(from)), target(boost::asio::get_associated_executor(handler)), work(target) {}

    Handler handler;
    executor target;
    kept_work<executor> work;
};

template <typename Handler, typename Waited>
class handler_wait final : public outstanding_wait {
    using kept = kept_handler<Handler>;
    using arguments = wait_arguments<typename Waited::result>;

public:
    // Takes over the handler, and constructs what it waits for.
    template <typename... Args>
    explicit handler_wait(Handler&& handler, Args&&... args)
        : waited_(std::forward<Args>(args)...), kept_(kept::make(std::move(handler))) {}

    static void begin(std::shared_ptr<handler_wait> self) {
        const Handler& handler = self->kept_->handler;
        self->waited_.prepare(*self);
        auto waits = boost::asio::use_service<wait_service>(context_of(self->kept_->target)).waits();
        auto slot = boost::asio::get_associated_cancellation_slot(handler);
        if (slot.is_connected()) slot.template emplace<canceller>(self);
        self->outstanding_wait::begin(std::move(waits));
    }

private:
    // Called by a cancellation signal. The wait's effects stay and its result is lost: partial cancellation, not total.
    class canceller {
    public:
        explicit canceller(std::shared_ptr<handler_wait> wait) noexcept : wait_(std::move(wait)) {}
        void operator()(boost::asio::cancellation_type_t type) {
            using boost::asio::cancellation_type;
            const auto self = wait_;
            if ((type & (cancellation_type::terminal | cancellation_type::partial)) != cancellation_type::none)
                self->cancel();
        }

    private:
        std::shared_ptr<handler_wait> wait_;
    };

    // Posted to the executor: calls the handler. When it is dropped uncalled, it drops the handler; but not where post
    // fails, which may be repeated.
    class delivery {
    public:
        using allocator_type = boost::asio::associated_allocator_t<Handler>;

        explicit delivery(std::shared_ptr<handler_wait> wait) noexcept : wait_(std::move(wait)) {}
        delivery(delivery&&) noexcept = default;
        delivery& operator=(delivery&&) = delete;  // it is used once
        ~delivery() {
            if (!wait_) return;
            if (wait_->posting_ == std::this_thread::get_id()) {
                wait_->is_dropped_by_post_ = true;
            } else {
                wait_->drop_handler();
            }
        }

        allocator_type get_allocator() const noexcept {
            return boost::asio::get_associated_allocator(wait_->kept_->handler);
        }

        void operator()() {
            const auto wait = std::move(wait_);
            auto kept = std::move(wait->kept_);
            auto slot = boost::asio::get_associated_cancellation_slot(kept->handler);
            if (slot.is_connected()) slot.clear();
            Handler handler(std::move(kept->handler));
            kept.reset();
            std::exception_ptr failure;
            auto values = wait->outcome(failure);
            std::apply([&](auto&... each) { std::move(handler)(std::move(failure), std::move(each)...); }, values);
        }

    private:
        std::shared_ptr<handler_wait> wait_;
    };

    arguments outcome(std::exception_ptr& failure) {
        try {
            if (how_ == end::canceled) throw boost::system::system_error(boost::asio::error::operation_aborted);
            return take_arguments(waited_);
        } catch (...) {
            failure = std::current_exception();
            return arguments();
        }
    }

    void start() noexcept override { waited_.start(); }
    // Where memory is out, the handler waits for some. Another exception of the executor ends the program.
    void deliver(end how) noexcept override {
        how_ = how;
        const auto target = kept_->target;
        const auto self = std::static_pointer_cast<handler_wait>(shared_from_this());
        while (!is_posted(target, self)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    bool is_posted(const typename kept::executor& target, const std::shared_ptr<handler_wait>& self) {
        posting_ = std::this_thread::get_id();
        is_dropped_by_post_ = false;
        try {
            boost::asio::post(target, delivery(self));
        } catch (const std::bad_alloc&) {
            posting_ = std::thread::id();
            return false;
        }
        posting_ = std::thread::id();
        if (is_dropped_by_post_) drop_handler();  // the executor takes nothing any more
        return true;
    }
    void drop_handler() noexcept override { kept_.reset(); }
    abandonment abandon() noexcept override { return waited_.abandon(); }

    Waited waited_;
    typename kept::owner kept_;
    end how_ = end::completed;
    std::atomic<std::thread::id> posting_{};  // the thread that is in post
    bool is_dropped_by_post_ = false;         // belongs to that thread
};

// Starts to wait for a Waited that is constructed from the arguments.
template <typename Waited, typename Handler, typename... Args>
void begin_wait(Handler&& handler, Args&&... args) {
    using wait = handler_wait<std::decay_t<Handler>, Waited>;
    std::decay_t<Handler> own(std::forward<Handler>(handler));
    wait::begin(std::make_shared<wait>(std::move(own), std::forward<Args>(args)...));
}

}  // namespace sluice::detail
