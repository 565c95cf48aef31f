// A wait with the handler that is told. The handler is kept in memory of its own allocator, which is given back before
// the handler is called; until then its executor has work, so that io_context::run() does not return.
#pragma once

#include "sluice/asio/requirements.hpp"

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
#include <memory>
#include <optional>

#include "sluice/asio/wait_arguments.hpp"
#include "sluice/asio/wait_service.hpp"

namespace sluice::detail {

// While it lives, the executor has work.
template <typename Executor>
class kept_work {
public:
    explicit kept_work(const Executor& where)
        : tracked_(boost::asio::prefer(where, boost::asio::execution::outstanding_work.tracked)) {}

private:
    std::decay_t<decltype(boost::asio::prefer(std::declval<const Executor&>(),
                                              boost::asio::execution::outstanding_work.tracked))>
        tracked_;
};
template <typename Executor>
requires(!boost::asio::execution::is_executor<Executor>::value)  // one of the Networking TS
class kept_work<Executor> {
public:
    explicit kept_work(const Executor& where) : guard_(where) {}

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
        : handler(std::move(from)), where(boost::asio::get_associated_executor(handler)), work(where) {}

    Handler handler;
    executor where;
    kept_work<executor> work;
};

template <typename Handler, typename Waited>
class handler_wait final : public outstanding_wait {
    using kept = kept_handler<Handler>;
    using arguments = wait_arguments<typename Waited::result>;

public:
    // Takes over the handler, and makes what it waits for.
    template <typename... Args>
    explicit handler_wait(Handler&& handler, Args&&... args)
        : waited_(std::forward<Args>(args)...), kept_(kept::make(std::move(handler))) {}

    static void begin(std::shared_ptr<handler_wait> self) {
        const Handler& handler = self->kept_->handler;
        self->waited_.prepare(*self);
        auto waits = boost::asio::use_service<wait_service>(context_of(self->kept_->where)).waits();
        auto slot = boost::asio::get_associated_cancellation_slot(handler);
        if (slot.is_connected()) slot.template emplace<canceller>(self);
        self->outstanding_wait::begin(std::move(waits));
    }

private:
    // What a cancellation signal calls. The wait's effects stay, and its result is lost: partial at best, not total.
    class canceller {
    public:
        explicit canceller(std::shared_ptr<handler_wait> whose) noexcept : whose_(std::move(whose)) {}
        void operator()(boost::asio::cancellation_type_t type) {
            using boost::asio::cancellation_type;
            const auto self = whose_;
            if ((type & (cancellation_type::terminal | cancellation_type::partial)) != cancellation_type::none)
                self->give_up();
        }

    private:
        std::shared_ptr<handler_wait> whose_;
    };

    // What is posted: calls the handler, on its executor. Dropped uncalled, it drops the handler.
    class telling {
    public:
        using allocator_type = boost::asio::associated_allocator_t<Handler>;

        telling(std::shared_ptr<handler_wait> whose, typename kept::owner kept) noexcept
            : whose_(std::move(whose)), kept_(std::move(kept)) {}

        allocator_type get_allocator() const noexcept { return boost::asio::get_associated_allocator(kept_->handler); }

        void operator()() {
            auto slot = boost::asio::get_associated_cancellation_slot(kept_->handler);
            if (slot.is_connected()) slot.clear();
            Handler handler(std::move(kept_->handler));
            kept_.reset();
            std::exception_ptr failure;
            auto values = whose_->outcome(failure);
            whose_.reset();
            std::apply([&](auto&... each) { std::move(handler)(std::move(failure), std::move(each)...); }, values);
        }

    private:
        std::shared_ptr<handler_wait> whose_;
        typename kept::owner kept_;
    };

    arguments outcome(std::exception_ptr& failure) {
        try {
            if (how_ == end::given_up) throw boost::system::system_error(boost::asio::error::operation_aborted);
            return take_arguments(waited_);
        } catch (...) {
            failure = std::current_exception();
            return arguments();
        }
    }

    void start() noexcept override { waited_.start(); }
    void tell(end how) noexcept override {
        how_ = how;
        const auto where = kept_->where;
        auto self = std::static_pointer_cast<handler_wait>(shared_from_this());
        boost::asio::post(where, telling(std::move(self), std::move(kept_)));
    }
    void drop_handler() noexcept override { kept_.reset(); }
    bool abandon() noexcept override { return waited_.abandon(); }

    Waited waited_;
    typename kept::owner kept_;
    end how_ = end::come;
};

// Begins to wait, for what Waited makes of the arguments.
template <typename Waited, typename Handler, typename... Args>
void begin_wait(Handler&& handler, Args&&... args) {
    using wait = handler_wait<std::decay_t<Handler>, Waited>;
    std::decay_t<Handler> own(std::forward<Handler>(handler));
    wait::begin(std::make_shared<wait>(std::move(own), std::forward<Args>(args)...));
}

}  // namespace sluice::detail
