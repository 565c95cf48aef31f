// SPDX-License-Identifier: Apache-2.0
// A device without clusters and cooperative launches refuses both, and works.
#include "conformance/expect_refused.hpp"
#include "faults/faulty_backend.hpp"
#include "sluice/sluice.hpp"
#include "support/group_kernels.hpp"

namespace sluice::faults::missing_feature_tests {
namespace {

using conformance::expect_refused;
using namespace test_support;

TEST(missing_features, are_refused_before_anything_is_submitted) {
    faulty_runtime fakes;
    single_stream pool(fakes.on);
    tensor<float> x = sync(zeros<float>({4}), pool), out = sync(zeros<float>({4}), pool);
    tensor<unsigned> numbers = sync(zeros<unsigned>({4}), pool);
    const stream on = pool.next();
    const ticket before = on.issued();
    expect_refused(errc::unsupported, {"cluster_sums on fake:0", "no clusters"}, [&] {
        launch_on(on, cluster_sums{}, blocks(4, 32).in_clusters_of(2), shared_memory<float>(32), x, out);
    });
    expect_refused(errc::unsupported, {"passed_on on fake:0", "no cooperative launches"},
                   [&] { launch_on(on, passed_on{}, blocks(2, 32), numbers, 1u); });
    launch_command raw;
    raw.host_function = [](const void*) {};
    raw.cooperative = true;
    expect_refused(errc::unsupported, {"by hand on fake:0", "no cooperative launches"},
                   [&] { on.launch({"by hand"}, raw); });
    raw.cooperative = false;
    raw.cluster = {1, 1, 0};
    expect_refused(errc::invalid_argument, {"by hand", "1 x 1 x 0", "empty"}, [&] { on.launch({"by hand"}, raw); });
    EXPECT_EQ(on.issued(), before);
    // Clusters of one block need nothing.
    launch_on(on, cluster_sums{}, blocks(4, 32), shared_memory<float>(32), x, out);
    EXPECT_EQ(sync(download(std::move(out)), pool), std::vector<float>(4, 0));
}

}  // namespace
}  // namespace sluice::faults::missing_feature_tests
