// SPDX-License-Identifier: Apache-2.0
// What export_tensor, import_tensor and interprocess_event refuse on each backend, without another process.
#include "conformance/backend.hpp"
#include "conformance/expect_refused.hpp"
#include "sluice/cuda/interprocess.hpp"

namespace sluice::conformance::interprocess_refusal_tests {
namespace {

class interprocess_refusals : public conformance_test {
protected:
    bool is_gpu() const { return on.kind() == device_kind::cuda; }

    single_stream pool{on};
};
INSTANTIATE_TEST_SUITE_P(, interprocess_refusals, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(interprocess_refusals, a_cpu_device_says_what_to_do_instead) {
    device& cpu = devices.find("cpu:0");
    single_stream there(cpu);
    auto x = sluice::sync(upload(std::vector<float>{1, 2, 3}), there);
    expect_refused_here(errc::unsupported, {"export_tensor", "cpu:0", "MAP_SHARED", "adopt()"},
                        [&] { cuda::export_tensor(x); });
    expect_refused_here(errc::unsupported, {"import_tensor", "cpu:0", "MAP_SHARED", "adopt()"},
                        [&] { cuda::import_tensor<float>(cpu, cuda::tensor_handle()); });
    expect_refused_here(errc::unsupported, {"import_allocation", "cpu:0", "MAP_SHARED", "adopt()"},
                        [&] { cuda::import_allocation<float>(cpu, cuda::allocation_handle(), {4}); });
    expect_refused_here(errc::unsupported, {"interprocess_event", "cpu:0"},
                        [&] { cuda::interprocess_event event(cpu); });
    expect_refused_here(errc::unsupported, {"interprocess_event", "cpu:0"},
                        [&] { cuda::interprocess_event event(cpu, cuda::event_handle()); });
    const shared_tensor<float> kept(std::move(x));
    expect_refused(errc::unsupported, {"export_tensor"}, [&] { cuda::export_tensor(kept); });
    EXPECT_EQ(sluice::sync(download(kept), there), (std::vector<float>{1, 2, 3}));
}

TEST_P(interprocess_refusals, bytes_that_are_no_handle) {
    if (!is_gpu()) {
        expect_refused(errc::unsupported, {on.name()}, [&] { cuda::import_tensor<float>(on, cuda::tensor_handle()); });
        return;
    }
    cuda::tensor_handle noise;
    noise.bytes.fill(std::byte{0x5a});
    for (const cuda::tensor_handle& each : {cuda::tensor_handle(), noise}) {
        expect_refused_here(errc::invalid_argument, {"import_tensor", on.name(), "no handle of Sluice"},
                            [&] { cuda::import_tensor<float>(on, each); });
    }
    expect_refused_here(errc::invalid_argument, {"interprocess_event", on.name(), "no handle of Sluice"},
                        [&] { cuda::interprocess_event event(on, cuda::event_handle()); });
}

TEST_P(interprocess_refusals, a_tensor_that_was_moved_from) {
    auto x = sluice::sync(zeros<float>({4}), pool);
    const auto y = std::move(x);
    expect_refused(errc::invalid_argument, {"export_tensor", "moved from"}, [&] { cuda::export_tensor(x); });
}

TEST_P(interprocess_refusals, a_tensor_inside_a_graph) {
    const errc code = is_gpu() ? errc::graph_refused : errc::unsupported;
    expect_refused(code, {"export_tensor", on.name()}, [&] {
        compile(pool, [] {
            return zeros<float>({4}).transform([](tensor<float> x) {
                cuda::export_tensor(x);
                return x;
            });
        });
    });
}

}  // namespace sluice::conformance::interprocess_refusal_tests
