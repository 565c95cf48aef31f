// SPDX-License-Identifier: Apache-2.0
// Modules that are compiled at run time, and cubins, which come from the same compiler.
#include <filesystem>

#include "conformance/expect_refused.hpp"
#include "conformance/module_test.hpp"
#include "cuda/api/nvrtc.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::conformance::compiled_module_tests {
namespace {

class compiled_sources : public module_test {
protected:
    void SetUp() override {
        try {
            static_cast<void>(cuda::api::compiler_version());
        } catch (const error& refusal) {
            GTEST_SKIP() << refusal.what();
        }
    }
    source_options cached() const { return {.cache = folder.path()}; }
    std::vector<std::byte> cubin_for(int architecture) {
        const std::vector<std::pair<std::string, std::string>> none;
        return cuda::api::compile({"source.cu", source_of_set_all, none}, {"-arch=sm_" + std::to_string(architecture)},
                                  {});
    }
    std::vector<unsigned> run(const kernel_module& module, unsigned to) {
        const auto function = module.function<set_signature>("set_all");
        return sync(zeros<unsigned>({5})
                        .and_then([=](auto x) { return set_all(function, to, std::move(x)); })
                        .and_then(download),
                    pool);
    }

    const io::testing::temporary_directory folder;
};
INSTANTIATE_TEST_SUITE_P(, compiled_sources, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(compiled_sources, run) {
    const kernel_module module = compile_module(on, source_of_set_all, {.cache = ""});
    EXPECT_EQ(run(module, 7), std::vector<unsigned>(5, 7));
    EXPECT_FALSE(module.is_from_cache());
    EXPECT_EQ(module.name(), "source.cu");
}

TEST_P(compiled_sources, receive_options_and_headers) {
    const kernel_module module = compile_module(
        on,
        "#include \"number.h\"\n"
        "extern \"C\" __global__ void set_all(unsigned n, unsigned to, unsigned* x) {\n"
        "    if (threadIdx.x < n) x[threadIdx.x] = to + NUMBER + number;\n"
        "}\n",
        {.options = {"-DNUMBER=100"}, .headers = {{"number.h", "constexpr unsigned number = 20;"}}, .cache = ""});
    EXPECT_EQ(run(module, 3), std::vector<unsigned>(5, 123));
}

TEST_P(compiled_sources, that_are_wrong_are_refused_with_the_line) {
    const std::string source = "\nextern \"C\" __global__ void f(float* x) { y = 1; }\n";
    const source_options how{.name = "broken.cu", .cache = ""};
    const std::string where = "compile_module of 'broken.cu' on " + on.name();
    expect_refused_here(errc::invalid_argument, {where, "does not compile", "broken.cu(2)", "\"y\" is undefined"},
                        [&] { compile_module(on, source, how); });
    expect_refused(errc::invalid_argument, {"--no-such-option"},
                   [&] { compile_module(on, source_of_set_all, {.options = {"--no-such-option"}, .cache = ""}); });
    expect_refused(errc::invalid_argument, {"zero byte"},
                   [&] { compile_module(on, std::string_view("int x;\0int y;", 13), {.cache = ""}); });
}

TEST_P(compiled_sources, whose_names_are_changed_by_cpp_are_listed_under_the_names_of_the_module) {
    const kernel_module module =
        compile_module(on, "__global__ void set_all(unsigned, unsigned, unsigned*) {}", {.cache = ""});
    if (module.function_names().empty()) GTEST_SKIP() << "this driver cannot list functions";
    expect_refused(errc::invalid_argument, {"_Z7set_alljjPj", "extern \"C\""},
                   [&] { module.function<set_signature>("set_all"); });
    EXPECT_NO_THROW(module.function<set_signature>("_Z7set_alljjPj"));
}

TEST_P(compiled_sources, come_from_the_cache_the_second_time) {
    EXPECT_FALSE(compile_module(on, source_of_set_all, cached()).is_from_cache());
    const kernel_module again = compile_module(on, source_of_set_all, cached());
    EXPECT_TRUE(again.is_from_cache());
    EXPECT_EQ(run(again, 7), std::vector<unsigned>(5, 7));
    source_options other = cached();
    other.options = {"-DOTHER"};
    EXPECT_FALSE(compile_module(on, source_of_set_all, other).is_from_cache());
}

TEST_P(compiled_sources, are_compiled_again_when_the_cache_is_damaged) {
    static_cast<void>(compile_module(on, source_of_set_all, cached()));
    for (const auto& file : std::filesystem::directory_iterator(folder.path()))
        std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
    const kernel_module again = compile_module(on, source_of_set_all, cached());
    EXPECT_FALSE(again.is_from_cache());
    EXPECT_EQ(run(again, 8), std::vector<unsigned>(5, 8));
    EXPECT_TRUE(compile_module(on, source_of_set_all, cached()).is_from_cache());
}

TEST_P(compiled_sources, need_no_cache) {
    const auto file = folder.write("file", "");
    const kernel_module module = compile_module(on, source_of_set_all, {.cache = file / "in_a_file"});
    EXPECT_EQ(run(module, 9), std::vector<unsigned>(5, 9));
}

TEST_P(compiled_sources, that_include_other_files_are_not_cached) {
    const auto header = folder.write("number.h", "constexpr unsigned number = 1;\n");
    const std::string source =
        "#include \"number.h\"\n"
        "extern \"C\" __global__ void set_all(unsigned n, unsigned to, unsigned* x) {\n"
        "    if (threadIdx.x < n) x[threadIdx.x] = to + number;\n"
        "}\n";
    const source_options how{.options = {"-I" + folder.path().string()}, .cache = folder / "cache"};
    EXPECT_EQ(run(compile_module(on, source, how), 10), std::vector<unsigned>(5, 11));
    folder.write("number.h", "constexpr unsigned number = 2;\n");
    EXPECT_EQ(run(compile_module(on, source, how), 10), std::vector<unsigned>(5, 12));
}

TEST_P(compiled_sources, as_a_cubin_for_another_gpu_are_refused) {
    const int here = on.properties().compute_capability;
    const int other = here / 10 == 8 ? 90 : 80;
    const std::vector<std::byte> cubin = cubin_for(other);
    const std::string ours = "sm_" + std::to_string(here), theirs = "sm_" + std::to_string(other);
    expect_refused_here(errc::unsupported, {"no code for this GPU", ours, theirs}, [&] { load_module(on, cubin); });
}

TEST_P(compiled_sources, as_a_cubin_load_whole_and_are_refused_wherever_they_are_cut) {
    const std::vector<std::byte> cubin = cubin_for(on.properties().compute_capability);
    EXPECT_EQ(run(load_module(on, cubin), 6), std::vector<unsigned>(5, 6));
    for (std::size_t length = 1; length < cubin.size(); length += 13) {
        expect_refused(errc::bad_file, {}, [&] { load_module(on, std::span(cubin).first(length)); });
    }
    EXPECT_EQ(run(load_module(on, cubin), 6), std::vector<unsigned>(5, 6));
}

TEST_P(compiled_sources, run_in_clusters) {
    if (on.properties().max_blocks_per_cluster < 2) GTEST_SKIP() << on.name() << " has no clusters";
    const kernel_module module = compile_module(on, R"(
        extern "C" __global__ void clusters(unsigned* x) {
            unsigned rank, size;
            asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
            asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
            if (threadIdx.x == 0) x[blockIdx.x] = size * 10 + rank;
        })",
                                                {.cache = ""});
    const auto clusters = module.function<void(unsigned*)>("clusters");
    const auto in_clusters_of = [&](unsigned cluster) {
        return sync(zeros<unsigned>({8})
                        .and_then([=](auto x) { return clusters(blocks(8, 32).in_clusters_of(cluster), std::move(x)); })
                        .and_then(download),
                    pool);
    };
    EXPECT_EQ(in_clusters_of(1), (std::vector<unsigned>{10, 10, 10, 10, 10, 10, 10, 10}));
    EXPECT_EQ(in_clusters_of(2), (std::vector<unsigned>{20, 21, 20, 21, 20, 21, 20, 21}));
    EXPECT_EQ(in_clusters_of(4), (std::vector<unsigned>{40, 41, 42, 43, 40, 41, 42, 43}));
    expect_refused(errc::invalid_argument, {"clusters on " + on.name(), "3 x 1 x 1", "8 x 1 x 1"},
                   [&] { in_clusters_of(3); });
    expect_refused(errc::invalid_argument, {"16 x 1 x 1", "at most 8"}, [&] { in_clusters_of(16); });
}

TEST_P(compiled_sources, run_cooperatively) {
    const kernel_module module = compile_module(on, R"(
        // Block 0 reads what all others write: it waits for them.
        extern "C" __global__ void add_all(unsigned* x, unsigned* arrived) {
            if (threadIdx.x != 0) return;
            x[blockIdx.x] = blockIdx.x;
            __threadfence();
            atomicAdd(arrived, 1u);
            if (blockIdx.x != 0) return;
            while (atomicAdd(arrived, 0u) != gridDim.x) {}
            __threadfence();
            unsigned sum = 0;
            for (unsigned i = 0; i < gridDim.x; ++i) sum += static_cast<volatile unsigned*>(x)[i];
            *x = sum;
        })",
                                                {.cache = ""});
    const auto add_all = module.function<void(unsigned*, unsigned*)>("add_all");
    const auto most = add_all.active_blocks(32) * static_cast<unsigned>(on.properties().compute_units);
    const auto with = [&](unsigned count) {
        return sync(zip(zeros<unsigned>({count}), zeros<unsigned>({1}))
                        .and_then([=](auto x, auto arrived) {
                            return add_all(blocks(count, 32).cooperatively(), std::move(x), std::move(arrived));
                        })
                        .and_then([](auto x, auto) { return download(std::move(x)); }),
                    pool)
            .front();
    };
    EXPECT_EQ(with(1), 0u);
    EXPECT_EQ(with(100), 99u * 100 / 2);
    EXPECT_EQ(with(most), static_cast<unsigned>(std::size_t{most - 1} * most / 2));
    expect_refused(errc::invalid_argument, {"add_all on " + on.name(), "at most " + std::to_string(most)},
                   [&] { with(most + 1); });
}

}  // namespace sluice::conformance::compiled_module_tests
