// SPDX-License-Identifier: Apache-2.0
// What the handles of a device_context are for: calls of cuBLAS and cuDNN between kernels of one's own, in order on the
// stream that the handle was asked for, on two streams at once. A handle that is not bound to its stream computes
// before the slow kernel has written what it reads.
#include <dlfcn.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "conformance/backend.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::conformance::library_handle_tests {
namespace {

constexpr std::size_t side = 256;

// Writes late.
struct write_late {
    SLUICE_KERNEL void operator()(index_1d at, float value, unsigned rounds, disjoint_view<float> x) const {
        unsigned state = rounds | 1;  // the compiler cannot remove this delay
        for (unsigned i = 0; i < rounds; ++i) state = state * 1664525u + 1013904223u + (state >> 16);
        if (float* const e = x.at(at)) *e = value + (state == 0xdecafbad ? 1.0f : 0.0f);
    }
};

struct add_one {
    SLUICE_KERNEL void operator()(index_1d at, disjoint_view<float> x) const {
        if (float* const e = x.at(at)) *e += 1.0f;
    }
};

template <typename Function>
Function* loaded(const char* library, const char* name) {
    void* const opened = dlopen(library, RTLD_NOW);
    return opened != nullptr ? reinterpret_cast<Function*>(dlsym(opened, name)) : nullptr;
}

using sgemm_function = int(cublasContext*, int, int, int, int, int, const float*, const float*, int, const float*, int,
                           const float*, float*, int);
using create_function = int(void**);
using set_function = int(void*, int, int, int, int, int, int);
using scale_function = int(cudnnContext*, void*, void*, const void*);

// What the library calls are given.
struct product {
    sgemm_function* call;
    cublasContext* handle;
    const float* x;
    float* y;
};
struct scaling {
    scale_function* call;
    cudnnContext* handle;
    void* form;  // of the tensor
    float* y;
};

class library_handles : public testing::Test {
protected:
    // y = x * x by cuBLAS, on the stream.
    void multiply(stream on, const tensor<float>& x, tensor<float>& y) {
        static auto* const sgemm = loaded<sgemm_function>("libcublas.so.13", "cublasSgemm_v2");
        ASSERT_NE(sgemm, nullptr);
        const product all{sgemm, context.cublas(on), x.device_data(), y.device_data()};
        const std::array accesses{memory_access{x.memory(), access_mode::read},
                                  memory_access{y.memory(), access_mode::write}};
        on.library_call({"product", accesses},
                        {[](const native_stream&, const void* closure) {
                             const auto& of = *static_cast<const product*>(closure);
                             const float one = 1, zero = 0;
                             constexpr int n = side;
                             if (of.call(of.handle, 0, 0, n, n, n, &one, of.x, n, of.x, n, &zero, of.y, n) != 0) {
                                 throw std::runtime_error("cublasSgemm");
                             }
                         },
                         &all, sizeof(all)});
    }

    // y = y / 2 by cuDNN, on the stream.
    void halve(stream on, tensor<float>& y) {
        static auto* const scale = loaded<scale_function>("libcudnn.so.9", "cudnnScaleTensor");
        static auto* const create = loaded<create_function>("libcudnn.so.9", "cudnnCreateTensorDescriptor");
        static auto* const set = loaded<set_function>("libcudnn.so.9", "cudnnSetTensor4dDescriptor");
        ASSERT_NE(scale, nullptr);
        static void* form = nullptr;
        if (form == nullptr) {
            ASSERT_EQ(create(&form), 0);
            ASSERT_EQ(set(form, 0, 0, 1, 1, side, side), 0);  // f32, NCHW
        }
        const scaling all{scale, context.cudnn(on), form, y.device_data()};
        const std::array accesses{memory_access{y.memory(), access_mode::write}};
        on.library_call({"scaling", accesses}, {[](const native_stream&, const void* closure) {
                                                    const auto& of = *static_cast<const scaling*>(closure);
                                                    const float half = 0.5f;
                                                    if (of.call(of.handle, of.form, of.y, &half) != 0) {
                                                        throw std::runtime_error("cudnnScaleTensor");
                                                    }
                                                },
                                                &all, sizeof(all)});
    }

    bool are_installed() {
        try {
            context.cublas(a);
            context.cudnn(a);
            return true;
        } catch (const error& refusal) {
            EXPECT_EQ(refusal.code(), errc::unsupported) << refusal.what();
            return false;
        }
    }

    runtime owner;
    device& gpu = owner.find("cuda:0");
    cuda::device_context& context = cuda::device_context::of(gpu);
    round_robin pool{gpu, 2};
    stream a = pool.next();
    stream b = pool.next();
};

}  // namespace

TEST_F(library_handles, compute_between_kernels_of_ones_own_on_two_streams) {
    if (!are_installed()) GTEST_SKIP() << "cuBLAS or cuDNN is not installed";
    for (int round = 0; round < 20; ++round) {
        std::vector<tensor<float>> results;
        for (const stream on : {a, b}) {
            const float value = on == a ? 1.0f : 2.0f;
            auto x = submit_to(on, zeros<float>({side, side})), y = submit_to(on, zeros<float>({side, side}));
            launch_on(on, write_late{}, each_of(shape{side * side}), value, 100'000u, x);
            multiply(on, x, y);
            launch_on(on, add_one{}, each_of(shape{side * side}), y);
            halve(on, y);
            launch_on(on, add_one{}, each_of(shape{side * side}), y);
            results.push_back(std::move(y));
        }
        const auto of = [](float x) { return (static_cast<float>(side) * x * x + 1) / 2 + 1; };
        EXPECT_EQ(contents(std::move(results[0]), a), std::vector<float>(side * side, of(1)));
        EXPECT_EQ(contents(std::move(results[1]), b), std::vector<float>(side * side, of(2)));
    }
}

}  // namespace sluice::conformance::library_handle_tests
