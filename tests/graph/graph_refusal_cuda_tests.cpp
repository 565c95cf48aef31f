// SPDX-License-Identifier: Apache-2.0
// An update that the driver refuses: its result, and the operation.
#include "conformance/backend.hpp"
#include "cuda/api/runtime.hpp"

namespace sluice::conformance {
namespace {

CONFORMANCE_SUITE(driver_refusals);

struct fills {
    unsigned* data;
    unsigned count;
};
void fill_often(const native_stream& on, const void* closure) {
    const auto& what = *static_cast<const fills*>(closure);
    for (unsigned i = 0; i < what.count; ++i)
        cuda::api::fill(what.data, static_cast<unsigned char>(i), 4096, static_cast<CUstream_st*>(on.handle), {});
}

// A library call that becomes as many nodes.
auto filled(unsigned count) {
    return std::function<any_operation<tensor<unsigned>>()>([count]() -> any_operation<tensor<unsigned>> {
        return named("often", with_context([count](execution_context& context) {
                         tensor<unsigned> to(context.stream(), shape{1024});
                         const fills what{to.device_data(), count};
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

}  // namespace sluice::conformance
