// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_stream.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <new>
#include <thread>
#include <utility>

#include "cuda/api/commands.hpp"
#include "cuda/api/error.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/cuda_graph_program.hpp"
#include "cuda/fault.hpp"
#include "cuda/retired_modules.hpp"
#include "sluice/cuda/device_context.hpp"
#include "sluice/runtime/detail/command_queue.hpp"
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

    void wait() override {
        const api::device_scope scope(*event_.get_deleter().of);
        api::synchronize(event_.get());
    }
    bool has_passed() const noexcept override {
        const api::device_scope scope(*event_.get_deleter().of, std::nothrow);
        return scope.is_open() && api::query(event_.get()) == api::success;
    }
    std::chrono::duration<double, std::micro> since(const timed_mark& earlier) const override {
        const api::device_scope scope(*event_.get_deleter().of);
        const auto* const from = dynamic_cast<const cuda_mark&>(earlier).event_.get();
        return std::chrono::duration<double, std::milli>(
            api::elapsed_milliseconds(const_cast<CUevent_st*>(from), event_.get()));
    }

private:
    std::shared_ptr<event_pool> events_;  // a mark may outlive its device
    api::event_handle event_;
};

}  // namespace

cuda_stream::cuda_stream(command_queue& owner, const api::gpu_context& context, const stream_options& options,
                         std::shared_ptr<event_pool> marks)
    : owner_(owner),
      context_(context),
      marks_(std::move(marks)),
      replay_(options.replays ? std::make_unique<stretch_replay>(can_start_early(owner.owner())) : nullptr),
      host_works_(std::make_shared<host_works>()) {
    const api::device_scope scope(context_);
    if (options.foreign) {
        attach(options.foreign);
    } else {
        stream_ = api::create_stream(options.priority);
        handle_ = stream_.get();
    }
    handover_ = api::create_event(api::event_use::ordering);
    sleeping_ = api::create_event(api::event_use::sleeping);
    flag_ = {static_cast<std::uint64_t*>(api::allocate_pinned(sizeof(std::uint64_t))),
             api::free_pinned_object<std::uint64_t>{&context_}};
    if (!flag_) throw out_of_memory(sizeof(std::uint64_t), 0, {"stream", owner.owner().name()});
    *flag_ = 0;
}

cuda_stream::~cuda_stream() {
    stream_.reset();  // before the memory that its commands use
    abandon();
}

native_stream cuda_stream::own_native() const noexcept { return {device_kind::cuda, handle_, &owner_}; }

// A fault is reported by whichever call comes next. It ends the device, not just this command.
template <typename Call>
void cuda_stream::checked(const command_info& info, Call&& call) {
    try {
        const api::device_scope scope(context_);
        call(error_context{info.name, owner_.owner().name(), info.location});
    } catch (const device_error& error) {
        notice(error);
        throw;
    }
}

void cuda_stream::notice(int code, std::string_view call) noexcept {
    if (api::is_fatal(code)) report_fault(code, call);
}

void cuda_stream::notice(const device_error& error) {
    if (!api::is_fatal(error)) return;
    report_fault(error.code().value(), "a CUDA call");
    owner_.owner().throw_if_refusing();  // the first cause, which another command may have reported
}

template <typename Enqueue>
void cuda_stream::enqueue(const command_info& info, Enqueue&& call, bool runs_kernels) {
    if (replay_ != nullptr) submit_kept();
    enqueue_now(info, call, runs_kernels);
}

template <typename Enqueue>
void cuda_stream::enqueue_now(const command_info& info, Enqueue&& call, bool runs_kernels) {
    checked(info, call);
    const ticket number = owner_.issued() + 1;
    in_flight_.note(number, info, runs_kernels);
    if (replay_ != nullptr) in_driver_.store(number, std::memory_order_release);
}

void cuda_stream::report_fault(int code, std::string_view call) noexcept {
    device& gpu = owner_.owner();
    if (gpu.is_poisoned()) return;
    // Several threads may notice the fault at the same time, each on its own GPU: all devices get the first thread's
    // cause.
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    if (gpu.is_poisoned()) return;
    try {
        const std::exception_ptr cause = describe_fault(gpu, owner_, code, call);
        gpu.poison(cause);
        if (gpu.interpreter().fails_alone()) return;
        for (device* const each : gpu.peers()) each->poison(cause);
    } catch (...) {  // out of memory: poison without the description
        gpu.poison(std::current_exception());
    }
}

void cuda_stream::copy(const command_info& info, const copy_command& command) {
    // Kept even if the host memory is pageable: whether the call returns before the copy has completed depends on the
    // driver.
    if (command.host_owner) {
        keep_for_next_command(command.host_owner);
    } else {
        drop_passed_owners();
    }
    const auto call = [&](const error_context& context) {
        if (command.source_device != nullptr) {
            const auto& from = static_cast<cuda_device&>(command.source_device->interpreter().undecorated());
            api::copy_between(command.destination, context_, command.source, from.native(), command.bytes, handle_,
                              context);
        } else if (command.rows.count != 1) {
            api::copy_rows(command, handle_, context);
        } else {
            api::copy(command.destination, command.source, command.bytes, command.direction, handle_, context);
        }
    };
    if (!may_keep(info)) return enqueue(info, call);
    if (!keep_copy(info, command)) enqueue_now(info, call, false);
}

kept_owners::span cuda_stream::until_next_command() const noexcept { return {passed(), owner_.issued() + 1}; }

void cuda_stream::keep_for_next_command(const std::shared_ptr<const void>& owner) {
    kept_.keep(owner, until_next_command());
}

void cuda_stream::fill(const command_info& info, const fill_command& command) {
    const auto call = [&](const error_context& context) {
        api::fill(command.destination, command.value, command.bytes, handle_, context);
    };
    if (!may_keep(info)) return enqueue(info, call);
    if (!keep_fill(info, command)) enqueue_now(info, call, false);
}

void cuda_stream::launch(const command_info& info, const launch_command& command) {
    if (command.function != nullptr) kept_.keep_function(*command.function, until_next_command());
    const auto call = [&](const error_context& context) {
        CUfunc_st* const kernel = find_kernel(command, context);
        if (!command.early_start || can_start_early(owner_.owner())) {
            api::launch(kernel, command, handle_, context);
        } else {
            launch_command possible = command;
            possible.early_start = false;
            api::launch(kernel, possible, handle_, context);
        }
    };
    if (!may_keep(info)) return enqueue(info, call, true);
    if (!keep_launch(info, command)) enqueue_now(info, call, true);
}

// Called with the stream's lock held, as all commands are.
CUfunc_st* cuda_stream::find_kernel(const launch_command& command, const error_context& context) {
    if (command.function != nullptr) return static_cast<CUfunc_st*>(command.function->handle);
    const void* const symbol = command.device_function;
    if (symbol == nullptr)
        throw error(errc::unsupported, "this launch was not compiled by nvcc, so the kernel has no GPU code", context);
    // Symbols are addresses of functions, which are 16-byte aligned.
    known_kernel& known = known_kernels_[(reinterpret_cast<std::uintptr_t>(symbol) >> 4) % known_kernels_.size()];
    if (known.symbol != symbol) {
        CUfunc_st* const found = api::find_kernel(symbol, context);
        known = {symbol, found, api::allowed_shared_memory(found, context)};
    }
    if (command.shared_bytes > known.shared_bytes) {
        known.shared_bytes = api::allow_shared_memory(known.kernel, context);
    }
    return known.kernel;
}

std::exception_ptr cuda_stream::library_call(const command_info& info, const library_command& command) {
    try {
        enqueue(info, [&](const error_context&) { command.call(own_native(), command.closure); }, true);
    } catch (...) {
        return std::current_exception();
    }
    return {};
}

void cuda_stream::host_call(const command_info& info, host_command command) {
    call_host(info, std::move(command.call), nullptr);
}

void cuda_stream::call_host(const command_info& info, std::function<void()> function,
                            std::shared_ptr<graph_host_calls> of) {
    // Listed before the call, because the callback may run before the call returns.
    host_work& work = host_works_->add(std::move(function), detail::outcome_ref(info.outcome), std::move(of));
    try {
        enqueue(info, [&](const error_context& context) { api::call_host(handle_, &host_works::run, &work, context); });
    } catch (...) {
        host_works::remove(work);
        throw;
    }
}

void cuda_stream::graph(const command_info& info, const graph_command& command) {
    const auto& program = static_cast<const cuda_graph_program&>(*command.program);
    enqueue(
        info, [&](const error_context& context) { api::launch(program.now()->exec.get(), handle_, context); }, true);
    try {
        const kept_owners::span when = until_next_command();
        kept_.keep_graph_owner(command.owner, when);  // after the launch, which it would otherwise delay
        kept_.keep_graph(program.now(), when);
        if (program.host_calls() == nullptr) return;
        // After the graph, on the same ticket: reports failures of its host calls, and keeps their states until then.
        const auto report = [states = program.host_calls()] {
            if (std::exception_ptr failure = states->take_failure()) std::rethrow_exception(std::move(failure));
        };
        call_host(info, report, program.host_calls());
    } catch (...) {
        // The caller will treat the command as not submitted, so the graph must have completed.
        const api::device_scope scope(context_);
        api::synchronize(handle_);
        throw;
    }
}

void cuda_stream::abandon() noexcept {
    host_works_->abandon();
    drop_kept();
    // The device may be lost because of another one. Then its GPU continues and uses the memory; closing the device
    // waits for it and calls this again.
    {
        const api::device_scope scope(context_, std::nothrow);
        if (scope.is_open() && stream_ != nullptr && api::query(handle_) == api::not_ready) return;
    }
    kept_.drop_all();
}

ticket cuda_stream::hand_over(ticket upto) {
    std::unique_lock<std::mutex> keeping;
    if (replay_ != nullptr) {
        keeping = std::unique_lock(replay_mutex_);
        submit_kept_locked();
    }
    const std::lock_guard lock(mutex_);
    if (covered_ < upto) {
        const ticket last = in_driver();
        api::record(handover_.get(), handle_);
        covered_ = last;
    }
    return covered_;
}

ticket cuda_stream::order_after(stream_interpreter& other, ticket upto) {
    // `other` may be on another GPU: each call is checked by its own stream, to which its fault belongs.
    auto& from = static_cast<cuda_stream&>(other);
    submit_kept();
    ticket covered = 0;
    from.checked({"wait"}, [&](const error_context&) { covered = from.hand_over(upto); });
    checked({"wait"}, [&](const error_context&) { api::wait(handle_, from.handover_.get()); });
    return covered;
}

std::unique_ptr<timed_mark> cuda_stream::mark() {
    submit_kept();
    std::unique_ptr<timed_mark> made;
    checked({"event"}, [&](const error_context&) { made = std::make_unique<cuda_mark>(marks_, handle_); });
    return made;
}

void cuda_stream::has_passed(ticket number) noexcept {
    ticket known = passed_.load(std::memory_order_relaxed);
    while (known < number && !passed_.compare_exchange_weak(known, number, std::memory_order_release)) {
    }
}

void cuda_stream::poll() noexcept {
    if (stream_ == nullptr) return poll_foreign();
    const ticket issued = in_driver();
    if (passed() >= issued || owner_.owner().is_poisoned()) return;
    const ticket seen = last_flag();
    const api::device_scope scope(context_, std::nothrow);
    const int code = scope.is_open() ? api::query(handle_) : scope.code();
    if (code == api::success) return has_passed(issued);
    // Any other code that is no fault is about this moment, for instance a capture of the stream by the user.
    if (code != api::not_ready) return notice(code, "cuStreamQuery");
    has_passed(seen);  // the flag was written, and the query has reported no fault
    const std::lock_guard lock(mutex_);
    if (covered_ > passed() && api::query(handover_.get()) == api::success) has_passed(covered_);
}

// Called with the stream's lock held, like the commands.
void cuda_stream::arm(ticket upto) noexcept {
    if (armed_ >= upto) return;
    submit_kept();
    const ticket issued = in_driver();
    const api::device_scope scope(context_, std::nothrow);
    // If the write fails, the completion service still polls the stream from time to time.
    if (scope.is_open() && api::write_value(handle_, flag_.get(), issued)) armed_ = issued;
}

ticket cuda_stream::last_flag() const noexcept {
    const std::atomic_ref<std::uint64_t> flag(*flag_);
    return std::max(passed(), flag.load(std::memory_order_acquire));
}

void cuda_stream::await_handle(wait_mode mode) {
    if (mode == wait_mode::spin) return api::synchronize(handle_);
    if (mode == wait_mode::yield) {
        int code = api::not_ready;
        while ((code = api::query(handle_)) == api::not_ready) std::this_thread::yield();
        if (code != api::success) api::fail(code, "cuStreamQuery", {});
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        api::record(sleeping_.get(), handle_);
    }
    api::synchronize(sleeping_.get());
}

void cuda_stream::trim() noexcept {
    try {
        drop_passed_owners();
        device_context::of(owner_.owner()).kept<module_keeper>().retired->unload_all();
    } catch (...) {  // no memory for the list of modules: there are none
    }
}

void cuda_stream::wait(ticket upto, wait_mode mode) {
    if (passed() >= upto) return drop_passed_owners();
    submit_kept();
    const ticket issued = in_driver();
    checked({"wait"}, [&](const error_context&) { await_stream(mode); });
    // On a device that has faulted, "done" from the driver does not prove that our command ran.
    if (owner_.owner().is_poisoned()) owner_.owner().throw_if_refusing();
    has_passed(std::max(issued, upto));
    drop_passed_owners();
}

}  // namespace sluice::cuda
