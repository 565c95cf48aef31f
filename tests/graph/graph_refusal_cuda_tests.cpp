// SPDX-License-Identifier: Apache-2.0
// An update that the driver refuses: its result, and the operation.
#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
#include "cuda/api/commands.hpp"
#include "cuda/api/runtime.hpp"

namespace sluice::conformance::graph_refusal_cuda_tests {
namespace {

CONFORMANCE_SUITE(driver_refusals);

struct fills {
    unsigned* data;
    unsigned count;
    unsigned first;
};
void fill_often(const native_stream& on, const void* closure) {
    const auto& what = *static_cast<const fills*>(closure);
    for (unsigned i = 0; i < what.count; ++i)
        cuda::api::fill(what.data, static_cast<unsigned char>(what.first + i), 4096,
                        static_cast<CUstream_st*>(on.handle), {});
}

using operation_function = std::function<any_operation<tensor<unsigned>>()>;

// A library call that becomes as many nodes, which fill with one value after the other.
operation_function filled(unsigned count, unsigned first = 0) {
    return operation_function([count, first]() -> any_operation<tensor<unsigned>> {
        return named("often", with_context([count, first](execution_context& context) {
                         tensor<unsigned> to(context.stream(), shape{1024});
                         const fills what{to.device_data(), count, first};
                         const std::array accesses{memory_access{to.memory(), access_mode::write}};
                         context.stream().library_call({"fills", accesses}, {&fill_often, &what, sizeof(what)});
                         return to;
                     }));
    });
}

}  // namespace

TEST_P(driver_refusals, name_the_result_and_the_operation) {
    single_stream pool(on);
    const auto fast = compile(on, filled(2));
    EXPECT_EQ(fast.update(filled(3)), graph_change::instantiated);
    const std::string why = fast.why_instantiated();
    EXPECT_NE(why.find("cudaGraphExecUpdateError"), std::string::npos) << why;
    EXPECT_NE(why.find("'often'"), std::string::npos) << why;
    EXPECT_EQ(sync(fast().and_then(download), pool)[0], 0x02020202u);
}

TEST_P(driver_refusals, of_one_update_do_not_concern_the_next_one) {
    single_stream pool(on);
    const auto longer = [](unsigned first) {
        return operation_function([first]() -> any_operation<tensor<unsigned>> {
            return filled(2, first)().and_then([](auto x) { return step(std::move(x), 1); });
        });
    };
    const auto fast = compile(on, filled(2));
    EXPECT_EQ(fast.update(longer(0)), graph_change::instantiated);
    EXPECT_EQ(fast.update(longer(5)), graph_change::whole_graph);  // the driver accepts this one
    EXPECT_EQ(sync(fast().and_then(download), pool)[0], 3 * 0x06060606u + 1);
}

// Code of others that forks to a stream of its own and forgets to join it.
TEST_P(driver_refusals, a_fork_that_is_not_joined_is_refused) {
    struct forked_fill {
        unsigned* data;
        CUstream_st* arm;
        CUevent_st* begun;
    };
    single_stream pool(on);
    const cuda::api::device_scope scope(cuda::api::ordinal_of(static_cast<CUstream_st*>(pool.next().native().handle)));
    const cuda::api::stream_handle arm = cuda::api::create_stream(0);
    const cuda::api::event_handle begun = cuda::api::create_event(cuda::api::event_use::ordering);
    const auto forked = [&] {
        return named("forks", with_context([&](execution_context& context) {
                         tensor<unsigned> to(context.stream(), shape{1024});
                         const forked_fill what{to.device_data(), arm.get(), begun.get()};
                         const std::array accesses{memory_access{to.memory(), access_mode::write}};
                         const auto call = [](const native_stream& home, const void* closure) {
                             const auto& all = *static_cast<const forked_fill*>(closure);
                             cuda::api::record(all.begun, static_cast<CUstream_st*>(home.handle));
                             cuda::api::wait(all.arm, all.begun);
                             cuda::api::fill(all.data, 1, 4096, all.arm, {});
                         };
                         context.stream().library_call({"fork", accesses}, {call, &what, sizeof(what)});
                         return to;
                     }));
    };
    try {
        static_cast<void>(compile(on, forked));
        FAIL() << "nothing was thrown";
    } catch (const device_error& refusal) {
        const std::string_view what = refusal.what();
        EXPECT_NE(what.find("cuStreamEndCapture"), std::string_view::npos) << what;
        EXPECT_NE(what.find("unjoined"), std::string_view::npos) << what;
        EXPECT_NE(what.find("fork on " + on.name()), std::string_view::npos) << what;
        EXPECT_EQ(refusal.device(), on.name());
    }
    // The device and the library's capture stream are as before.
    EXPECT_FALSE(on.is_poisoned());
    const auto fast = compile(on, filled(2));
    EXPECT_EQ(sync(fast().and_then(download), pool)[0], 0x01010101u);
}

}  // namespace sluice::conformance::graph_refusal_cuda_tests
