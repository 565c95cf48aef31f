// SPDX-License-Identifier: Apache-2.0
// Fatbins that nvcc made when the tests were built: one for the GPUs of this build, one for another GPU.
#include <filesystem>

#include "conformance/expect_refused.hpp"
#include "conformance/module_test.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::conformance::fatbin_module_tests {
namespace {

const std::filesystem::path folder = SLUICE_TEST_FATBINS;

class fatbin_modules : public module_test {
protected:
    std::vector<unsigned> run(const kernel_module& module, unsigned to) {
        const auto function = module.function<set_signature>("set_all");
        return sync(zeros<unsigned>({100})
                        .and_then([=](auto x) { return set_all(function, to, std::move(x)); })
                        .and_then(download),
                    pool);
    }

    const std::filesystem::path file = folder / "this_build.fatbin";
};
INSTANTIATE_TEST_SUITE_P(, fatbin_modules, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(fatbin_modules, are_loaded_from_a_file_and_run) {
    const kernel_module module = load_module(on, file);
    EXPECT_EQ(module.name(), file.string());
    EXPECT_EQ(run(module, 7), std::vector<unsigned>(100, 7));

    const auto function = module.function<axpy_signature>("axpy");
    const std::vector<float> y =
        sync(zip(upload(std::vector<float>(1000, 3)), upload(std::vector<float>(1000, 1)))
                 .and_then([=](auto a, auto b) { return axpy(function, 2, std::move(a), std::move(b)); })
                 .and_then(download),
             pool);
    EXPECT_EQ(y, std::vector<float>(1000, 7));
}

TEST_P(fatbin_modules, are_loaded_from_memory_and_run) {
    const std::string bytes = io::testing::read_file(file);
    const kernel_module module = load_module(on, bytes_of(bytes), "kernels");
    EXPECT_EQ(module.name(), "kernels");
    EXPECT_EQ(run(module, 8), std::vector<unsigned>(100, 8));
}

TEST_P(fatbin_modules, run_in_graphs) {
    const auto function = load_module(on, file).function<set_signature>("set_all");
    const auto fast = compile(
        on,
        [function](tensor<unsigned> x, unsigned to) { return set_all(function, to, std::move(x)).and_then(download); },
        host_input<unsigned>({100}), argument<unsigned>(1));
    for (const unsigned to : {1u, 5u, 5u, 9u})
        EXPECT_EQ(sluice::sync(fast(std::vector<unsigned>(100), to), pool), std::vector<unsigned>(100, to));
}

TEST_P(fatbin_modules, name_their_functions_where_one_is_missing) {
    const kernel_module module = load_module(on, file);
    if (module.function_names().empty()) GTEST_SKIP() << "this driver cannot list functions";
    expect_refused_here(errc::invalid_argument, {"this_build.fatbin", "'saxpy'", "axpy, set_all"},
                        [&] { module.function<set_signature>("saxpy"); });
}

TEST_P(fatbin_modules, without_code_for_this_gpu_are_refused) {
    const int here = on.properties().compute_capability;
    if (here / 10 == 7) GTEST_SKIP() << on.name() << " runs the code of the fatbin";
    expect_refused_here(errc::unsupported, {"sm_75.fatbin", "no code for this GPU", "sm_" + std::to_string(here)},
                        [&] { load_module(on, folder / "sm_75.fatbin"); });
    EXPECT_EQ(run(load_module(on, file), 4), std::vector<unsigned>(100, 4));  // after that the device works
}

TEST_P(fatbin_modules, that_are_cut_are_refused_and_the_whole_one_runs_afterwards) {
    const std::string bytes = io::testing::read_file(file);
    for (std::size_t length = 1; length < bytes.size(); length += 13) {
        expect_refused(errc::bad_file, {},
                       [&] { load_module(on, bytes_of(std::string_view(bytes).substr(0, length))); });
    }
    EXPECT_EQ(run(load_module(on, file), 6), std::vector<unsigned>(100, 6));
}

}  // namespace sluice::conformance::fatbin_module_tests
