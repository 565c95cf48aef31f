// SPDX-License-Identifier: Apache-2.0
// Functions of modules on a GPU: what they receive, graphs of them, how long a module lives, and what is refused.
#include <numeric>
#include <optional>

#include "conformance/expect_refused.hpp"
#include "conformance/module_test.hpp"
#include "io/support/temporary_directory.hpp"

namespace sluice::conformance::kernel_module_tests {
namespace {

class kernel_modules : public module_test {};
INSTANTIATE_TEST_SUITE_P(, kernel_modules, testing::ValuesIn(enrolled_backends()), backend_name);

std::vector<float> numbers(std::size_t size) {
    std::vector<float> made(size);
    std::iota(made.begin(), made.end(), 1.f);
    return made;
}

}  // namespace

// --- what a function receives --------------------------------------------------------------------------------------

TEST_P(kernel_modules, a_function_receives_addresses_and_values) {
    const auto function = load(ptx_kernels).function<axpy_signature>("axpy");
    EXPECT_EQ(function.name(), "axpy");
    const std::vector<float> x = numbers(1000);
    const std::vector<float> y =
        sync(zip(upload(x), upload(x))
                 .and_then([=](auto a, auto b) { return axpy(function, 2, std::move(a), std::move(b)); })
                 .and_then(download),
             pool);
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], 3 * x[i]) << i;
}

TEST_P(kernel_modules, a_function_receives_views_as_structures) {
    const auto function = load(ptx_kernels).function<void(view<const unsigned>, disjoint_view<unsigned>)>("copy_views");
    const std::vector<unsigned> x = counting<unsigned>(500);
    const std::vector<unsigned> y = sync(zip(upload(x), zeros<unsigned>({500}))
                                             .and_then([=](auto from, auto to) {
                                                 return function(blocks_over(500, 128), std::move(from), std::move(to));
                                             })
                                             .and_then(download),
                                         pool);
    EXPECT_EQ(y, x);
}

TEST_P(kernel_modules, a_function_reads_shared_tensors) {
    const auto function = load(ptx_kernels).function<axpy_signature>("axpy");
    const shared_tensor<float> x(sluice::sync(upload(numbers(100)), pool));
    const auto once = [&](float a) {
        return sync(zeros<float>({100})
                        .and_then([=](auto y) { return function(blocks(2, 64), 100u, a, x, std::move(y)); })
                        .and_then(download),
                    pool);
    };
    EXPECT_EQ(once(1), numbers(100));
    EXPECT_EQ(once(3)[99], 300);
}

TEST_P(kernel_modules, a_function_runs_as_one_command_on_a_stream) {
    const auto function = load(ptx_kernels).function<void(unsigned, unsigned, unsigned*)>("set_all");
    tensor<unsigned> x = sluice::sync(zeros<unsigned>({3}), pool);
    launch_on(pool.next(), function, blocks(1, 32), 3u, 9u, x);
    EXPECT_EQ(contents(std::move(x), pool.next()), std::vector<unsigned>(3, 9));
}

TEST_P(kernel_modules, commands_on_two_streams_are_ordered_by_what_a_function_writes) {
    NEEDS_A_GATE();
    const auto function = load(ptx_kernels).function<set_signature>("set_all");
    const stream a = pool.next(), b = pool.next();
    tensor<unsigned> x = sluice::sync(zeros<unsigned>({64}), pool);
    gate held(a);
    launch_on(a, function, blocks(1, 64), 64u, 5u, x);
    launch_on(b, function, blocks(1, 64), 32u, 6u, x);
    held.open();
    std::vector<unsigned> expected(64, 5);
    std::fill(expected.begin(), expected.begin() + 32, 6);
    EXPECT_EQ(contents(std::move(x), b), expected);
}

TEST_P(kernel_modules, a_launch_without_blocks_submits_nothing) {
    const auto function = load(ptx_kernels).function<set_signature>("set_all");
    tensor<unsigned> x = sluice::sync(zeros<unsigned>({4}), pool);
    const stream on_it = pool.next();
    const ticket before = on_it.issued();
    launch_on(on_it, function, blocks(0, 64), 4u, 5u, x);
    EXPECT_EQ(on_it.issued(), before);
    EXPECT_EQ(contents(std::move(x), on_it), std::vector<unsigned>(4, 0));
}

TEST_P(kernel_modules, a_function_uses_as_much_shared_memory_as_it_is_given) {
    const auto function = load(ptx_kernels).function<void(unsigned, unsigned*)>("through_shared");
    EXPECT_GT(function.max_shared_bytes(), std::size_t{48} << 10);
    const auto offset = static_cast<unsigned>(function.max_shared_bytes() - 4 * 32);  // the last bytes of it
    const std::vector<unsigned> y =
        sync(zeros<unsigned>({32})
                 .and_then(
                     [=](auto x) { return function(blocks(1, 32, function.max_shared_bytes()), offset, std::move(x)); })
                 .and_then(download),
             pool);
    EXPECT_EQ(y, counting<unsigned>(32));
}

// --- graphs ----------------------------------------------------------------------------------------------------------

TEST_P(kernel_modules, a_graph_runs_a_function_with_other_arguments_each_time) {
    const auto function = load(ptx_kernels).function<axpy_signature>("axpy");
    const auto fast = compile(
        on,
        [function](tensor<float> x, tensor<float> y, float a) {
            return axpy(function, a, std::move(x), std::move(y)).and_then(download);
        },
        host_input<float>({100}), host_input<float>({100}), argument<float>(1));
    for (const float a : {1.f, 2.f, 2.f, 5.f, 1.f}) {
        const std::vector<float> x = numbers(100), y(100, a);
        const std::vector<float> result = sluice::sync(fast(x, y, a), pool);
        for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(result[i], a * x[i] + a) << i;
    }
}

TEST_P(kernel_modules, a_graph_may_look_its_function_up_each_time_it_is_recorded) {
    const kernel_module module = load(ptx_kernels);
    const auto fast = compile(
        on,
        [module](tensor<unsigned> x, unsigned to) {
            return set_all(module.function<set_signature>("set_all"), to, std::move(x)).and_then(download);
        },
        host_input<unsigned>({10}), argument<unsigned>(1));
    for (const unsigned to : {1u, 7u, 8u})
        EXPECT_EQ(sluice::sync(fast(std::vector<unsigned>(10), to), pool), std::vector<unsigned>(10, to));
}

TEST_P(kernel_modules, an_update_takes_a_function_of_another_module) {
    using graph_function = std::function<any_operation<pending<std::vector<unsigned>>>(tensor<unsigned>)>;
    const auto with = [](const module_function<set_signature>& function) {
        return graph_function([function](tensor<unsigned> x) {
            return any_operation<pending<std::vector<unsigned>>>(set_all(function, 4, std::move(x)).and_then(download));
        });
    };
    const std::vector<unsigned> x(8);
    const auto fast =
        compile(on, with(load(ptx_kernels).function<set_signature>("set_all")), host_input<unsigned>({8}));
    EXPECT_EQ(sluice::sync(fast(x), pool), std::vector<unsigned>(8, 4));
    fast.update(with(load(ptx_set_one_more).function<set_signature>("set_all")));
    EXPECT_EQ(sluice::sync(fast(x), pool), std::vector<unsigned>(8, 5));
    fast.update(with(load(ptx_kernels).function<set_signature>("set_all")));
    EXPECT_EQ(sluice::sync(fast(x), pool), std::vector<unsigned>(8, 4));
}

// --- how long a module lives ----------------------------------------------------------------------------------------

TEST_P(kernel_modules, a_module_that_is_dropped_early_stays_until_its_launch_is_over) {
    NEEDS_A_GATE();
    const stream on_it = pool.next();
    tensor<unsigned> x = sluice::sync(zeros<unsigned>({64}), pool);
    std::optional module = load(ptx_kernels);
    std::optional function = module->function<set_signature>("set_all");
    const std::weak_ptr<const detail::loaded_module> alive = module->handle();
    gate held(on_it);
    launch_on(on_it, *function, blocks(1, 64), 64u, 5u, x);
    module.reset();
    function.reset();
    EXPECT_FALSE(alive.expired());
    held.open();
    EXPECT_EQ(contents(std::move(x), on_it), std::vector<unsigned>(64, 5));
    EXPECT_TRUE(is_dropped(alive));
}

TEST_P(kernel_modules, many_launches_of_functions_of_several_modules_keep_each_until_its_last) {
    std::vector<std::weak_ptr<const detail::loaded_module>> alive;
    tensor<unsigned> x = sluice::sync(zeros<unsigned>({64}), pool);
    const stream on_it = pool.next();
    {
        const kernel_module first = load(ptx_kernels), second = load(ptx_set_one_more);
        alive = {first.handle(), second.handle()};
        const auto plain = first.function<set_signature>("set_all");
        const auto one_more = second.function<set_signature>("set_all");
        for (unsigned i = 0; i < 50; ++i) {
            launch_on(on_it, plain, blocks(1, 64), 64u, i, x);
            launch_on(on_it, i % 3 == 0 ? plain : one_more, blocks(1, 64), 32u, i, x);
        }
    }
    std::vector<unsigned> expected(64, 49);
    std::fill(expected.begin(), expected.begin() + 32, 50);
    EXPECT_EQ(contents(std::move(x), on_it), expected);
    for (const auto& each : alive) EXPECT_TRUE(is_dropped(each));
}

TEST_P(kernel_modules, a_graph_keeps_a_module_until_its_last_launch_is_over) {
    NEEDS_A_GATE();
    std::weak_ptr<const detail::loaded_module> alive;
    tensor<unsigned> x = sluice::sync(zeros<unsigned>({64}), pool);
    const stream on_it = pool.next();
    tensor<unsigned> result;
    {
        std::optional<kernel_module> module = load(ptx_kernels);
        alive = module->handle();
        std::optional fast = compile(
            on,
            [function = module->function<set_signature>("set_all")](tensor<unsigned> each) {
                return set_all(function, 5, std::move(each));
            },
            device_input<unsigned>({64}));
        module.reset();
        on.trim();
        EXPECT_FALSE(alive.expired());
        x = sluice::sync((*fast)(std::move(x)), pool);
        gate held(on_it);
        result = submit_to(on_it, (*fast)(std::move(x)));
        fast.reset();  // before its launch runs
        EXPECT_FALSE(alive.expired());
    }
    EXPECT_EQ(contents(std::move(result), on_it), std::vector<unsigned>(64, 5));
    EXPECT_TRUE(is_dropped(alive));
}

TEST_P(kernel_modules, a_module_may_outlive_its_runtime) {
    std::optional<kernel_module> module;
    {
        runtime another(GetParam().options);
        module = load_module(another.find(GetParam().device), bytes_of(ptx_kernels), "test.ptx");
    }
    module.reset();
    const auto function = load(ptx_kernels).function<set_signature>("set_all");
    tensor<unsigned> x = sluice::sync(zeros<unsigned>({4}), pool);
    EXPECT_EQ(sluice::sync(set_all(function, 3, std::move(x)).and_then(download), pool), std::vector<unsigned>(4, 3));
}

TEST_P(kernel_modules, may_be_dropped_in_a_host_call) {
    auto module = std::make_shared<std::optional<kernel_module>>(load(ptx_kernels));
    const std::weak_ptr<const detail::loaded_module> alive = (*module)->handle();
    sluice::sync(host_call([module] { module->reset(); }), pool);
    EXPECT_TRUE(alive.expired());
    EXPECT_NO_THROW(load(ptx_kernels).function<set_signature>("set_all"));
}

// --- what is refused ------------------------------------------------------------------------------------------------

TEST_P(kernel_modules, a_name_that_is_missing_is_refused_with_the_names_that_exist) {
    const kernel_module module = load(ptx_kernels);
    EXPECT_EQ(module.name(), "test.ptx");
    const std::vector<std::string> names = module.function_names();
    if (names.empty()) GTEST_SKIP() << "this driver cannot list functions";
    EXPECT_EQ(names, (std::vector<std::string>{"axpy", "copy_views", "set_all", "through_shared"}));
    expect_refused_here(errc::invalid_argument, {"test.ptx", "'saxpy'", "axpy, copy_views, set_all, through_shared"},
                        [&] { module.function<set_signature>("saxpy"); });
    expect_refused(errc::invalid_argument, {"no function"},
                   [&] { module.function<set_signature>(std::string_view("axpy\0x", 6)); });
}

TEST_P(kernel_modules, a_signature_of_other_sizes_is_refused) {
    const kernel_module module = load(ptx_kernels);
    if (module.function_names().empty()) GTEST_SKIP() << "this driver cannot list parameters";
    expect_refused_here(errc::shape_mismatch, {"axpy", "4 parameters", "has 3"},
                        [&] { module.function<void(unsigned, float, float*)>("axpy"); });
    expect_refused(errc::shape_mismatch, {"axpy", "4 parameters", "has 5"},
                   [&] { module.function<void(unsigned, float, const float*, float*, float*)>("axpy"); });
    expect_refused(errc::shape_mismatch, {"axpy", "parameter 1", "4 bytes", "8"},
                   [&] { module.function<void(unsigned, double, const float*, float*)>("axpy"); });
    expect_refused(errc::shape_mismatch, {"axpy", "parameter 2", "8 bytes", "16"},
                   [&] { module.function<void(unsigned, float, view<const float>, float*)>("axpy"); });
    expect_refused(errc::shape_mismatch, {"copy_views", "parameter 0", "16 bytes", "8"},
                   [&] { module.function<void(const unsigned*, disjoint_view<unsigned>)>("copy_views"); });
}

TEST_P(kernel_modules, a_launch_beyond_a_limit_is_refused_and_submits_nothing) {
    const auto function = load(ptx_kernels).function<set_signature>("set_all");
    tensor<unsigned> x = sluice::sync(zeros<unsigned>({4}), pool);
    const stream on_it = pool.next();
    const ticket before = on_it.issued();
    const std::size_t too_much = function.max_shared_bytes() + 1;
    expect_refused_here(errc::invalid_argument, {"set_all on", "threads", std::to_string(function.max_threads())},
                        [&] { launch_on(on_it, function, blocks({1}, {32, 64}), 4u, 5u, x); });
    expect_refused_here(errc::invalid_argument, {"set_all on", std::to_string(too_much), std::to_string(too_much - 1)},
                        [&] { launch_on(on_it, function, blocks(1, 32, too_much), 4u, 5u, x); });
    expect_refused_here(errc::invalid_argument, {"set_all on", "no threads"},
                        [&] { launch_on(on_it, function, blocks(1, 0), 4u, 5u, x); });
    expect_refused_here(errc::invalid_argument, {"set_all on", "65535"},
                        [&] { launch_on(on_it, function, blocks({1, 70'000}, {32}), 4u, 5u, x); });
    const tensor<unsigned> nothing;
    expect_refused_here(errc::invalid_argument, {"set_all on", "moved"},
                        [&] { launch_on(on_it, function, blocks(1, 32), 4u, 5u, nothing); });
    EXPECT_EQ(on_it.issued(), before);
    EXPECT_EQ(contents(std::move(x), on_it), std::vector<unsigned>(4, 0));
}

TEST_P(kernel_modules, another_device_is_refused) {
    const auto function = load(ptx_kernels).function<set_signature>("set_all");
    single_stream there(other_device());
    tensor<unsigned> x = sluice::sync(zeros<unsigned>({4}), there);
    const errc code = other_device().kind() == device_kind::cuda ? errc::invalid_argument : errc::unsupported;
    expect_refused_here(code, {"set_all on " + other_device().name(), on.name()},
                        [&] { launch_on(there.next(), function, blocks(1, 32), 4u, 5u, x); });
    EXPECT_EQ(contents(std::move(x), there.next()), std::vector<unsigned>(4, 0));
}

TEST_P(kernel_modules, bytes_that_are_no_module_are_refused) {
    expect_refused_here(errc::bad_file, {"load_module of 'garbage' on " + on.name(), "begins with"},
                        [&] { load_module(on, bytes_of("no module at all"), "garbage"); });
    expect_refused(errc::bad_file, {"empty"}, [&] { load_module(on, bytes_of("")); });
    std::string damaged(ptx_kernels);
    damaged.replace(damaged.find("mad.lo.u32"), 10, "mad.no.u32");
    expect_refused(errc::bad_file, {"does not assemble", "Unknown modifier"}, [&] { load(damaged); });
    expect_refused(errc::bad_file, {"does not assemble"}, [&] { load(ptx_kernels.substr(0, ptx_kernels.size() / 2)); });
    // After all that the device works.
    EXPECT_NO_THROW(load(ptx_kernels));
}

TEST_P(kernel_modules, a_file_is_loaded_and_a_missing_or_empty_one_is_refused) {
    const io::testing::temporary_directory folder;
    const auto file = folder.write("kernels.ptx", ptx_kernels);
    const kernel_module module = load_module(on, file);
    EXPECT_EQ(module.name(), file.string());
    EXPECT_NO_THROW(module.function<set_signature>("set_all"));
    expect_refused(errc::io_failed, {"missing.ptx"}, [&] { load_module(on, folder / "missing.ptx"); });
    expect_refused(errc::bad_file, {"empty.ptx"}, [&] { load_module(on, folder.write("empty.ptx", "")); });
    expect_refused(errc::bad_file, {"a.out"}, [&] { load_module(on, folder.write("a.out", "#!/bin/sh\n")); });
}

TEST_P(kernel_modules, occupancy_is_known) {
    const auto function = load(ptx_kernels).function<set_signature>("set_all");
    EXPECT_GE(function.active_blocks(32), function.active_blocks(1024));
    EXPECT_GE(function.active_blocks(1024), 1u);
    EXPECT_EQ(function.active_blocks(32, function.max_shared_bytes()), 1u);
    EXPECT_GE(function.suggested_block(), 32u);
    EXPECT_LE(function.suggested_block(), function.max_threads());
    expect_refused(errc::invalid_argument, {"threads"}, [&] { function.active_blocks(5000); });
}

}  // namespace sluice::conformance::kernel_module_tests
