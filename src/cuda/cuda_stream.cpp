#include "cuda/cuda_stream.hpp"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/api/error.hpp"
#include "cuda/cuda_graph_program.hpp"
#include "cuda/fault.hpp"
#include "sluice/cuda/device_context.hpp"
#include "sluice/runtime/command_queue.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::cuda {
namespace {

class cuda_mark final : public timed_mark {
public:
    cuda_mark(std::shared_ptr<event_pool> events, CUstream_st* stream)
        : events_(std::move(events)), event_(events_->take()) {
        api::record(event_.get(), stream);
    }
    ~cuda_mark() override { events_->put_back(std::move(event_)); }

    void await() override { api::synchronize(event_.get()); }
    bool has_passed() const noexcept override { return api::query(event_.get()) == api::success; }
    std::chrono::duration<double, std::micro> since(const timed_mark& earlier) const override {
        const auto* const from = dynamic_cast<const cuda_mark&>(earlier).event_.get();
        return std::chrono::duration<double, std::milli>(
            api::elapsed_milliseconds(const_cast<CUevent_st*>(from), event_.get()));
    }

private:
    std::shared_ptr<event_pool> events_;  // the mark may outlive its device
    api::event_handle event_;
};

}  // namespace

// What a host callback carries: the stream's until it runs, then the callback's. After a fault it never runs.
struct cuda_stream::host_work {
    cuda_stream& on;
    std::function<void()> call;
    detail::outcome_ref outcome;
    std::unique_ptr<host_work> next = nullptr;  // the stream's list
    host_work* previous = nullptr;

    static void run(void* erased) {
        const std::unique_ptr<host_work> work = take_over(*static_cast<host_work*>(erased));
        std::exception_ptr failure = work->outcome->inherited();
        try {
            if (!failure && work->call) work->call();
        } catch (...) {
            failure = std::current_exception();
        }
        work->call = nullptr;  // what it owned goes before anybody is told
        work->outcome->settle(std::move(failure));
    }

    static std::unique_ptr<host_work> take_over(host_work& work) {
        const std::lock_guard lock(work.on.mutex_);
        std::unique_ptr<host_work>& link = work.previous != nullptr ? work.previous->next : work.on.host_work_;
        std::unique_ptr<host_work> taken = std::move(link);
        link = std::move(taken->next);
        if (link) link->previous = taken->previous;
        return taken;
    }
};

cuda_stream::cuda_stream(command_queue& owner, int ordinal, const stream_options& options,
                         std::shared_ptr<event_pool> marks)
    : owner_(owner), ordinal_(ordinal), marks_(std::move(marks)) {
    const api::device_scope scope(ordinal);
    stream_ = api::create_stream(options.priority);
    handover_ = api::create_event(api::event_use::ordering);
    sleeping_ = api::create_event(api::event_use::sleeping);
    flag_.reset(static_cast<std::uint64_t*>(api::allocate_pinned(sizeof(std::uint64_t))));
    if (!flag_) throw out_of_memory(sizeof(std::uint64_t), 0, {"stream", owner.owner().name()});
    *flag_ = 0;
}

cuda_stream::~cuda_stream() {
    stream_.reset();                                              // no callback comes after this
    while (host_work_) host_work_ = std::move(host_work_->next);  // one by one: the list may be long
}

native_stream cuda_stream::native() const noexcept { return {device_kind::cuda, stream_.get(), &owner_.handle()}; }

// A fault turns up in whichever call comes next. Then the device is finished, not just this command.
template <typename Call>
void cuda_stream::checked(const command_info& info, Call&& call) {
    try {
        const api::device_scope scope(ordinal_);
        call(error_context{info.name, owner_.owner().name(), info.where});
    } catch (const device_error& error) {
        if (error.code().category() == api::category() && api::is_fatal(error.code().value())) {
            report_fault(error.code().value(), "a CUDA call");
            owner_.owner().throw_if_refusing();  // the first cause, which may have been another's
        }
        throw;
    }
}

template <typename Enqueue>
void cuda_stream::enqueue(const command_info& info, Enqueue&& call, bool runs_kernels) {
    checked(info, call);
    in_flight_.note(owner_.issued() + 1, info, runs_kernels);
}

void cuda_stream::report_fault(int code, std::string_view call) noexcept {
    device& gpu = owner_.owner();
    if (gpu.is_poisoned()) return;
    // Several threads may find out at the same time, each by a GPU of its own: the first one's cause is everybody's.
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    if (gpu.is_poisoned()) return;
    try {
        const std::exception_ptr cause = describe_fault(gpu, owner_, code, call);
        gpu.poison(cause);
        for (device* const each : gpu.beside()) each->poison(cause);
    } catch (...) {  // short of memory: with less to say
        gpu.poison(std::current_exception());
    }
}

void cuda_stream::copy(const command_info& info, const copy_command& command) {
    // Kept even if the host memory is pageable: whether the call returns before the copy is over depends on the driver.
    if (command.host_owner) {
        keep_until_next(command.host_owner);
    } else {
        drop_passed_owners();
    }
    enqueue(info, [&](const error_context& context) {
        if (command.source_device != nullptr) {
            api::copy_between(command.destination, ordinal_, command.source,
                              device_context::of(*command.source_device).ordinal(), command.bytes, stream_.get(),
                              context);
        } else {
            api::copy(command.destination, command.source, command.bytes, command.direction, stream_.get(), context);
        }
    });
}

// Keeps something until the command that is about to be enqueued is over.
void cuda_stream::keep_until_next(const std::shared_ptr<const void>& owner) {
    drop_passed_owners();
    const std::lock_guard lock(mutex_);
    const ticket number = owner_.issued() + 1;
    if (!kept_owners_.empty() && kept_owners_.back().owner == owner) {
        kept_owners_.back().until = number;  // once more: a graph that is launched again and again
    } else {
        kept_owners_.push_back({number, owner});
    }
    keeps_owners_.store(true, std::memory_order_relaxed);
}

void cuda_stream::fill(const command_info& info, const fill_command& command) {
    enqueue(info, [&](const error_context& context) {
        api::fill(command.destination, command.value, command.bytes, stream_.get(), context);
    });
}

void cuda_stream::launch(const command_info& info, const launch_command& command) {
    enqueue(
        info,
        [&](const error_context& context) {
            if (command.device_function == nullptr) {
                throw error(errc::unsupported, "this launch was not compiled by nvcc, so the kernel has no GPU code",
                            context);
            }
            launch_command possible = command;
            possible.early_start = command.early_start && can_start_early(owner_.owner());
            api::launch(find_kernel(command, context), possible, stream_.get(), context);
        },
        true);
}

// Called with the stream's lock held, as all commands are.
CUfunc_st* cuda_stream::find_kernel(const launch_command& command, const error_context& context) {
    const void* const symbol = command.device_function;
    // Symbols are addresses of functions: 16-byte aligned.
    known_kernel& known = known_kernels_[(reinterpret_cast<std::uintptr_t>(symbol) >> 4) % known_kernels_.size()];
    if (known.symbol != symbol) known = {symbol, api::find_kernel(symbol, context)};
    if (command.shared_bytes > known.shared_bytes) {
        known.shared_bytes = api::allow_shared_memory(known.kernel, context);
    }
    return known.kernel;
}

std::exception_ptr cuda_stream::library_call(const command_info& info, const library_command& command) {
    try {
        enqueue(info, [&](const error_context&) { command.call(native(), command.closure); }, true);
    } catch (...) {
        return std::current_exception();
    }
    return {};
}

void cuda_stream::host_call(const command_info& info, host_command command) {
    auto made =
        std::make_unique<host_work>(host_work{*this, std::move(command.call), detail::outcome_ref(info.outcome)});
    host_work& work = *made;
    {
        // In the list first: the callback may come before the call returns.
        const std::lock_guard lock(mutex_);
        work.next = std::move(host_work_);
        if (work.next) work.next->previous = &work;
        host_work_ = std::move(made);
    }
    try {
        enqueue(info,
                [&](const error_context& context) { api::call_host(stream_.get(), &host_work::run, &work, context); });
    } catch (...) {
        static_cast<void>(host_work::take_over(work));
        throw;
    }
}

void cuda_stream::graph(const command_info& info, const graph_command& command) {
    const auto& program = static_cast<const cuda_graph_program&>(*command.program);
    enqueue(info, [&](const error_context& context) { api::launch(program.exec(), stream_.get(), context); }, true);
    try {
        keep_until_next(command.owner);  // now that it runs: before, this would delay it
        if (program.host_calls() == nullptr) return;
        // Behind the graph, on the same ticket: tells how its host calls went, and keeps them until then.
        host_call(info, {[states = program.host_calls()] {
                      if (std::exception_ptr failure = states->take_failure())
                          std::rethrow_exception(std::move(failure));
                  }});
    } catch (...) {
        // Then the command is told not to have been submitted, so the graph must be over.
        api::synchronize(stream_.get());
        throw;
    }
}

// The calls go; their nodes stay with the stream, should a callback come after all.
void cuda_stream::abandon() noexcept {
    std::deque<kept_owner> owners;  // dropped outside the lock
    const std::lock_guard lock(mutex_);
    owners.swap(kept_owners_);
    for (host_work* each = host_work_.get(); each != nullptr; each = each->next.get()) each->call = nullptr;
}

ticket cuda_stream::hand_over(ticket upto) {
    const std::lock_guard lock(mutex_);
    if (covered_ < upto) {
        const ticket issued = owner_.issued();
        api::record(handover_.get(), stream_.get());
        covered_ = issued;
    }
    return covered_;
}

ticket cuda_stream::wait_for(stream_interpreter& other, ticket upto) {
    auto& from = static_cast<cuda_stream&>(other);  // perhaps another GPU's: a fault is whose call it is
    ticket covered = 0;
    from.checked({"wait"}, [&](const error_context&) { covered = from.hand_over(upto); });
    checked({"wait"}, [&](const error_context&) { api::wait(stream_.get(), from.handover_.get()); });
    return covered;
}

std::unique_ptr<timed_mark> cuda_stream::mark() {
    std::unique_ptr<timed_mark> made;
    checked({"event"}, [&](const error_context&) { made = std::make_unique<cuda_mark>(marks_, stream_.get()); });
    return made;
}

void cuda_stream::has_passed(ticket number) noexcept {
    ticket known = passed_.load(std::memory_order_relaxed);
    while (known < number && !passed_.compare_exchange_weak(known, number, std::memory_order_release)) {
    }
}

void cuda_stream::poll() noexcept {
    const ticket issued = owner_.issued();
    if (passed() >= issued || owner_.owner().is_poisoned()) return;
    const ticket seen = sighted();
    const int code = api::query(stream_.get());
    if (code == api::success) return has_passed(issued);
    if (code != api::not_ready) return report_fault(code, "cudaStreamQuery");
    has_passed(seen);  // sighted, and no fault since
    const std::lock_guard lock(mutex_);
    if (covered_ > passed() && api::query(handover_.get()) == api::success) has_passed(covered_);
}

// Called with the stream's lock held, like the commands.
void cuda_stream::arm(ticket upto) noexcept {
    if (armed_ >= upto) return;
    const ticket issued = owner_.issued();
    // When it cannot be written, the completion service asks the stream now and then all the same.
    if (api::write_value(stream_.get(), flag_.get(), issued)) armed_ = issued;
}

ticket cuda_stream::sighted() const noexcept {
    const std::atomic_ref<std::uint64_t> flag(*flag_);
    return std::max(passed(), flag.load(std::memory_order_acquire));
}

void cuda_stream::await_stream(wait_mode mode) {
    if (mode == wait_mode::spin) return api::synchronize(stream_.get());
    if (mode == wait_mode::yield) {
        int code = api::not_ready;
        while ((code = api::query(stream_.get())) == api::not_ready) std::this_thread::yield();
        if (code != api::success) api::fail(code, "cudaStreamQuery", {});
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        api::record(sleeping_.get(), stream_.get());
    }
    api::synchronize(sleeping_.get());
}

void cuda_stream::drop_passed_owners() {
    while (keeps_owners_.load(std::memory_order_relaxed)) {
        std::shared_ptr<const void> dropped;  // outside the lock: it is the user's
        const std::lock_guard lock(mutex_);
        if (kept_owners_.empty() || kept_owners_.front().until > passed()) return;
        dropped.swap(kept_owners_.front().owner);
        kept_owners_.pop_front();
        keeps_owners_.store(!kept_owners_.empty(), std::memory_order_relaxed);
    }
}

void cuda_stream::await(ticket upto, wait_mode mode) {
    if (passed() >= upto) return drop_passed_owners();
    const ticket issued = owner_.issued();
    checked({"wait"}, [&](const error_context&) { await_stream(mode); });
    // A driver that answers "done" on a device known to have faulted tells nothing about our command.
    if (owner_.owner().is_poisoned()) owner_.owner().throw_if_refusing();
    has_passed(std::max(issued, upto));
    drop_passed_owners();
}

}  // namespace sluice::cuda
