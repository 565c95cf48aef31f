// SPDX-License-Identifier: Apache-2.0
// What the calls of oneDNN share.
//
// Each thread has its own primitives, single-threaded (the workers are the parallelism), each with a scratchpad of the
// caller's: oneDNN 2.6 gives wrong results when a primitive with its own scratchpad runs on another thread than the one
// that made it. The thread may be one of the program's, which waits for the device: what it says to OpenMP stays.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/base/error.hpp"

// OpenMP's own; its header is not there with every compiler that links to the library.
extern "C" void omp_set_num_threads(int threads);
extern "C" int omp_get_max_threads();

namespace sluice::kernels::onednn {

inline const dnnl::engine& engine() {
    static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    return cpu;
}

// Of a primitive that has its scratchpad from the caller.
inline dnnl::primitive_attr attributes() {
    dnnl::primitive_attr all;
    all.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return all;
}

// A primitive of a source, weights and perhaps a bias, ready to run on other memory each time.
template <typename Primitive>
class plan {
public:
    using primitive_desc = typename Primitive::primitive_desc;

    plan(const primitive_desc& desc, bool has_bias)
        : primitive_(desc),
          source_(desc.src_desc(), engine(), nullptr),
          weights_(desc.weights_desc(), engine(), nullptr),
          out_(desc.dst_desc(), engine(), nullptr),
          scratchpad_(desc.scratchpad_desc(), engine(), nullptr),
          scratch_bytes_(desc.scratchpad_desc().get_size()) {
        arguments_ = {{DNNL_ARG_SRC, source_},
                      {DNNL_ARG_WEIGHTS, weights_},
                      {DNNL_ARG_DST, out_},
                      {DNNL_ARG_SCRATCHPAD, scratchpad_}};
        if (!has_bias) return;
        bias_ = dnnl::memory(desc.bias_desc(), engine(), nullptr);
        arguments_.emplace(DNNL_ARG_BIAS, bias_);
    }

    std::size_t scratch_bytes() const noexcept { return scratch_bytes_; }

    // `bias` is null for a plan without one. `scratch` has as many bytes as the plan says.
    void run(const float* source, const float* weights, const float* bias, float* out, void* scratch,
             dnnl::stream stream) {
        source_.set_data_handle(const_cast<float*>(source));  // oneDNN only reads these
        weights_.set_data_handle(const_cast<float*>(weights));
        out_.set_data_handle(out);
        if (bias != nullptr) bias_.set_data_handle(const_cast<float*>(bias));
        scratchpad_.set_data_handle(scratch);
        primitive_.execute(stream, arguments_);
        stream.wait();
    }

private:
    Primitive primitive_;
    dnnl::memory source_, weights_, bias_, out_, scratchpad_;
    std::size_t scratch_bytes_;
    std::unordered_map<int, dnnl::memory> arguments_;
};

// While it lives, oneDNN plans and computes on the calling thread only.
class single_threaded {
public:
    single_threaded() { omp_set_num_threads(1); }
    single_threaded(const single_threaded&) = delete;  // it sets the thread's own state back
    single_threaded& operator=(const single_threaded&) = delete;
    ~single_threaded() { omp_set_num_threads(before_); }

private:
    const int before_ = omp_get_max_threads();
};

// A T of the calling thread's own. A thread that ends leaves its T to the next one that needs one, because making plans
// takes longer than most calls.
template <typename T>
T& of_this_thread() {
    struct idle_objects {
        std::mutex mutex;
        std::vector<std::unique_ptr<T>> all;
    };
    static idle_objects& idle = *new idle_objects;  // never destroyed: threads may end after main
    struct holder {
        holder() {
            const std::lock_guard lock(idle.mutex);
            if (!idle.all.empty()) {
                mine = std::move(idle.all.back());
                idle.all.pop_back();
            } else {
                idle.all.reserve(idle.all.capacity() + 1);  // so that ~holder cannot fail
                mine = std::make_unique<T>();
            }
        }
        ~holder() {
            const std::lock_guard lock(idle.mutex);
            idle.all.push_back(std::move(mine));
        }
        std::unique_ptr<T> mine;
    };
    thread_local holder held;
    return *held.mine;
}

// Shapes seen on one thread before what is known of the oldest is thrown away together.
inline constexpr std::size_t kept_plans = 256;

// One thread's plans of one kind (of_this_thread), by key. A Plan is made by Plan(key), has scratch_bytes() and a run()
// that takes scratch memory of that many bytes and the stream at last.
template <typename Key, typename Plan>
class thread_plans {
public:
    // Where `scratch` is too small, the thread's own is used. Throws device_error when oneDNN refuses.
    template <typename... Operands>
    void run(const Key& key, const error_context& context, std::span<std::byte> scratch, Operands... operands) try {
        const single_threaded here;
        auto known = plans_.find(key);
        if (known == plans_.end()) {
            // One worker at a time generates code; the next finds it in oneDNN's own cache.
            static std::mutex making;
            const std::lock_guard lock(making);
            if (plans_.size() >= kept_plans) plans_.clear();
            known = plans_.try_emplace(key, key).first;
        }
        Plan& with = known->second;
        if (scratch.size() < with.scratch_bytes()) {
            if (scratch_.size() < with.scratch_bytes()) scratch_.resize(with.scratch_bytes());
            scratch = scratch_;
        }
        with.run(operands..., scratch.data(), stream_);
    } catch (const dnnl::error& refused) {
        throw device_error(make_error_code(errc::device_failed), std::string("oneDNN: ") + refused.what(), context);
    }

private:
    dnnl::stream stream_{engine()};
    std::vector<std::byte> scratch_;
    std::map<Key, Plan> plans_;
};

}  // namespace sluice::kernels::onednn
