// How operations that recover, try again or give up are run: each part is submitted when those before it allow it; no
// thread waits in between.
#pragma once

#include <exception>
#include <memory>
#include <tuple>

#include "sluice/async/spawn_task.hpp"
#include "sluice/async/task.hpp"
#include "sluice/async/when_all.hpp"
#include "sluice/op/and_then.hpp"
#include "sluice/op/give_up.hpp"
#include "sluice/op/or_else.hpp"
#include "sluice/op/retry.hpp"
#include "sluice/op/transform.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/giving_up.hpp"
#include "sluice/runtime/pending.hpp"
#include "sluice/runtime/stage.hpp"

// g++ warns of lambdas of the user's file in the coroutines' frames when the file went through nvcc, which makes one
// translation unit look like several.
#if defined(__CUDACC__) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif

namespace sluice::detail {

// (No captures, no aggregates and no temporaries that own anything in expressions with co_await: g++ 12.)
struct staged_access {
    template <typename Output>
    using part_task = task<submitted_part<Output>>;

    // What has no stages inside: one part.
    template <operation Op>
    requires(!is_staged<Op>)
    static part_task<output_of<Op>> run(Op op, stage_ref at) {
        execution_context context = at->enter();
        auto output = std::move(op).submit(context);
        co_return submitted_part<output_of<Op>>(std::move(output), std::move(context).submission());
    }

    template <operation Source, typename Function>
    requires(is_staged<and_then_operation<Source, Function>>)
    static auto run(and_then_operation<Source, Function> op, stage_ref at)
        -> part_task<output_of<and_then_operation<Source, Function>>> {
        using output = output_of<and_then_operation<Source, Function>>;
        auto before = run(std::move(op.source_), at);
        auto first = co_await std::move(before);
        at->require_wanted();
        auto next = spread(std::move(op.f_), std::move(first.output));
        auto after = run(std::move(next), at);
        submitted_part<output> second = co_await std::move(after);
        second.work->join(std::move(first.work));
        co_return std::move(second);
    }

    template <operation Source, typename Function>
    requires(is_staged<Source>)
    static auto run(transform_operation<Source, Function> op, stage_ref at)
        -> part_task<output_of<transform_operation<Source, Function>>> {
        using output = output_of<transform_operation<Source, Function>>;
        auto before = run(std::move(op.source_), at);
        auto first = co_await std::move(before);
        at->require_wanted();
        if constexpr (std::is_void_v<spread_result<Function, output_of<Source>>>) {
            spread(std::move(op.f_), std::move(first.output));
            co_return submitted_part<output>(output(), std::move(first.work));
        } else {
            output made = spread(std::move(op.f_), std::move(first.output));
            co_return submitted_part<output>(std::move(made), std::move(first.work));
        }
    }

    template <operation... Parts>
    requires(is_staged<Parts> || ...)
    static auto run(zip_operation<Parts...> op, stage_ref at) -> part_task<output_of<zip_operation<Parts...>>> {
        using output = output_of<zip_operation<Parts...>>;
        auto all = std::apply([&at](Parts&... part) { return when_all(run(std::move(part), at)...); }, op.parts_);
        auto parts = co_await std::move(all);
        submission_ref together(new submission(at->owner()));
        std::apply([&together](auto&... part) { (together->join(std::move(part.work)), ...); }, parts);
        output made = std::apply([](auto&... part) { return output(std::move(part.output)...); }, parts);
        co_return submitted_part<output>(std::move(made), std::move(together));
    }

    template <operation Source, typename Function>
    static part_task<output_of<Source>> run(or_else_operation<Source, Function> op, stage_ref at) {
        using output = output_of<Source>;
        std::exception_ptr failure;
        try {
            auto attempt = run_to_its_end(std::move(op.source_), at);
            submitted_part<output> done = co_await std::move(attempt);
            co_return std::move(done);
        } catch (...) {
            failure = std::current_exception();
        }
        if (at->is_abandoned()) std::rethrow_exception(failure);
        auto next = std::move(op.f_)(std::move(failure));
        auto recovery = run(std::move(next), std::move(at));
        auto recovered = co_await std::move(recovery);
        output made = adapt<output>(std::move(recovered.output));
        co_return submitted_part<output>(std::move(made), std::move(recovered.work));
    }

    template <typename Make, typename Again>
    static auto run(retry_operation<Make, Again> op, stage_ref at)
        -> part_task<output_of<retry_operation<Make, Again>>> {
        using output = output_of<retry_operation<Make, Again>>;
        for (int left = op.attempts_;; --left) {
            std::exception_ptr failure;
            try {
                auto made = op.make_();
                auto attempt = run_to_its_end(std::move(made), at);
                submitted_part<output> done = co_await std::move(attempt);
                co_return std::move(done);
            } catch (...) {
                failure = std::current_exception();
            }
            // A device that has faulted refuses all further attempts, and nobody waits for them any more once the
            // operation is abandoned.
            if (left <= 1 || at->owner().is_poisoned() || at->is_abandoned() || !op.again_(failure))
                std::rethrow_exception(failure);
        }
    }

    template <operation Source>
    static part_task<output_of<Source>> run(give_up_operation<Source> op, stage_ref at) {
        using whole_part = submitted_part<output_of<Source>>;
        auto own = std::make_shared<stage>(std::move(at));
        auto ends = std::make_shared<patience>(own);
        auto result = std::make_shared<std::optional<whole_part>>();
        auto failure = std::make_shared<std::exception_ptr>();
        ends->begin(op.deadline_, op.stop_);
        if (ends->how() == patience::end::none) {
            auto work = run_until_end(run_to_its_end(std::move(op.source_), own), ends, result, failure);
            static inline_executor here;
            static_cast<void>(spawn(std::move(work), here));  // it goes on, whether anybody waits or not
        }
        end_of_patience waiting(*ends);
        co_await waiting;
        if (*failure) std::rethrow_exception(*failure);
        co_return std::move(**result);
    }

    // The operation, and then all that it submitted. Nothing is opened.
    template <operation Op>
    static part_task<output_of<Op>> run_to_its_end(Op op, stage_ref at) {
        auto whole = run(std::move(op), std::move(at));
        submitted_part<output_of<Op>> done = co_await std::move(whole);
        reach_pending(*done.work, done.output);
        settlement settled(done.work);
        co_await settled;
        co_return std::move(done);
    }

private:
    template <typename Output, typename Made>
    static Output adapt(Made made) {
        if constexpr (std::is_same_v<Output, Made>) {
            return made;
        } else {
            static_assert(std::is_constructible_v<Output, Made>,
                          "or_else: the recovery gives another type of output than what failed");
            return Output(std::move(made));
        }
    }
};

// The whole of a staged operation, as a task that anybody may await or start. It ends on the completion thread as a
// rule, so that what is pending in its output is left for whoever takes that to open, on his own thread.
template <operation Op>
auto staged_task(Op op, const stage_ref& at) {
    return staged_access::run_to_its_end(std::move(op), at);
}

}  // namespace sluice::detail

#if defined(__CUDACC__) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
