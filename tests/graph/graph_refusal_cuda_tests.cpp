// SPDX-License-Identifier: Apache-2.0
// An update that the driver refuses: its result, and the operation.
#include "conformance/backend.hpp"
#include "conformance/kernels.hpp"
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

}  // namespace sluice::conformance::graph_refusal_cuda_tests
