// SPDX-License-Identifier: Apache-2.0
// Using an operation or a value again, after it was moved from or has run, is an error that names it.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>

#include "sluice/kernels/elementwise.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/reduce.hpp"
#include "sluice/kernels/softmax.hpp"
#include "sluice/sluice.hpp"

namespace sluice::used_again_tests {
namespace {

using testing::HasSubstr;

runtime_options small() { return {.cpu_workers = 2, .cuda = false}; }

class used_again : public testing::Test {
protected:
    runtime owner{small()};
    round_robin pool{owner.default_device(), 1};

    // The call throws errc::invalid_argument, and the message contains all of these.
    template <typename Call>
    static void expect_refused(const std::vector<std::string>& words, Call&& call) {
        try {
            call();
            ADD_FAILURE() << "was not refused: " << testing::PrintToString(words);
        } catch (const error& refusal) {
            EXPECT_EQ(refusal.code(), errc::invalid_argument) << refusal.what();
            for (const std::string& each : words) EXPECT_THAT(refusal.what(), HasSubstr(each));
        }
    }
    // Moves from the operation, and then submits it.
    template <typename Op>
    void expect_refused_after_move(const std::string& name, Op op) {
        {
            [[maybe_unused]] const Op elsewhere = std::move(op);
        }
        expect_refused({name, "moved from"}, [&] { sync(std::move(op), pool); });
    }
};

TEST_F(used_again, an_operation_that_was_moved_from_is_refused) {
    const std::vector<float> four{1, 2, 3, 4};
    expect_refused_after_move("upload", upload(four));
    expect_refused_after_move("upload", upload(host_buffer<float>(pool.next(), 4), {4}));
    expect_refused_after_move("zeros", zeros<float>({4}));
    expect_refused_after_move("full", full<float>({4}, 1));
    expect_refused_after_move("full", ones<float>({4}));
    expect_refused_after_move("eye", eye<float>(4));
    expect_refused_after_move("random", uniform({4}, 7));
    const auto compiled = compile(owner.default_device(), [] { return zeros<float>({4}); });
    expect_refused_after_move("graph", compiled());
    expect_refused_after_move("value", value(four));
    expect_refused_after_move("host_call", host_call([] { return 1; }));
    expect_refused_after_move("with_context", with_context([](execution_context&) { return 1; }));
    expect_refused_after_move("retry", retry(2, [] { return value(1); }));
    expect_refused_after_move("share", share(upload(four)));
    expect_refused_after_move("unzip", std::get<0>(unzip(value(1, 2))));
    expect_refused_after_move("any_operation", any_operation<int>(value(1)));
    expect_refused_after_move("upload", upload(four).and_then(download));
    expect_refused_after_move("download", download(tensor<float>(pool.next(), {4})));
}

TEST_F(used_again, an_upload_that_has_run_is_refused) {
    auto once = upload(std::vector<float>{1, 2, 3, 4});
    execution_context context(pool);
    std::move(once).submit(context);
    expect_refused({"upload", "runs once"}, [&] { std::move(once).submit(context); });
}

TEST_F(used_again, copies_of_a_share_run_once) {
    int runs = 0;
    auto shared_work = share(value(1).transform([&](int x) { return ++runs, x; }));
    auto copy_of_it = shared_work;
    sync(zip(shared_work, shared_work, std::move(copy_of_it)), pool);
    EXPECT_EQ(runs, 1);
}

TEST_F(used_again, a_tensor_that_was_moved_from_is_refused_by_the_name_of_what_uses_it) {
    const auto moved_from = [&] {
        tensor<float> x(pool.next(), {4, 4});
        [[maybe_unused]] const tensor<float> elsewhere = std::move(x);
        return x;
    };
    expect_refused({"download", "moved from"}, [&] { sync(download(moved_from()), pool); });
    expect_refused({"copy", "moved from"}, [&] { sync(copy(moved_from()), pool); });
    expect_refused({"relu", "moved from"}, [&] { sync(relu(moved_from()), pool); });
    expect_refused({"softmax", "moved from"}, [&] { sync(softmax(moved_from()), pool); });
    expect_refused({"sum", "moved from"}, [&] { sync(sum(moved_from()), pool); });
    expect_refused({"zeros", "moved from"}, [&] { sync(zeros<float>(moved_from().shape()), pool); });
    expect_refused({"upload", "moved from"}, [&] { sync(upload(std::vector<float>(), moved_from().shape()), pool); });
    std::vector<tensor<float>> pieces;
    pieces.push_back(moved_from());
    expect_refused({"download", "moved from"}, [&] { sync(download(std::move(pieces)), pool); });
}

TEST_F(used_again, a_shape_taken_in_the_call_that_moves_the_tensor_gives_no_zeros) {
    tensor<float> x = sync(upload(std::vector<float>{1, 2, 3, 4}), pool);
    // The compiler chooses the order of evaluation: the shape is that of x, or the call is refused.
    tensor<float> taken = std::move(x);
    const auto run = [&] { return sync(zip(zeros<float>(x.shape()), value(std::move(taken))), pool); };
    expect_refused({"zeros", "moved from"}, run);
}

TEST_F(used_again, a_tensor_without_elements_does_not_count_as_moved_from) {
    EXPECT_NE(shape{0}, shape::none());
    EXPECT_FALSE(shape{0}.is_none());
    EXPECT_TRUE(tensor<float>().shape().is_none());
    EXPECT_EQ(sync(zeros<float>({0}).and_then([](auto x) { return relu(std::move(x)); }).and_then(download), pool),
              std::vector<float>());
}

TEST_F(used_again, what_is_shared_or_pending_and_was_moved_from_is_refused) {
    auto weights = sync(share(zeros<float>({4})), pool);
    [[maybe_unused]] const auto kept = std::move(weights);
    expect_refused({"shared", "moved"}, [&] { sync(download(weights), pool); });
    expect_refused({"shared", "moved"}, [&] { each_of(weights); });
    pending<int> number(1);
    [[maybe_unused]] const auto elsewhere = std::move(number);
    expect_refused({"pending", "moved"}, [&] { sync(host_call([](int) {}, std::move(number)), pool); });
    expect_refused({"pending", "moved"}, [&] { sync(value(std::move(number)), pool); });
}

TEST_F(used_again, a_runtime_that_was_moved_from_is_refused) {
    runtime first(small());
    [[maybe_unused]] const runtime second = std::move(first);
    expect_refused({"runtime"}, [&] { first.devices(); });
    expect_refused({"runtime"}, [&] { first.find("cpu"); });
    expect_refused({"runtime"}, [&] { static_cast<void>(first.why_no_gpu()); });
}

TEST_F(used_again, a_time_that_is_not_a_number_is_refused) {
    const std::chrono::duration<double> nan(std::numeric_limits<double>::quiet_NaN());
    expect_refused({"NaN"}, [&] { timeout(value(1), nan); });
    const auto future = spawn(value(1), pool);
    expect_refused({"NaN"}, [&] { static_cast<void>(future.wait_for(nan)); });
    EXPECT_EQ(sync(timeout(value(1), std::chrono::duration<double>(INFINITY)), pool), 1);
}

}  // namespace
}  // namespace sluice::used_again_tests
