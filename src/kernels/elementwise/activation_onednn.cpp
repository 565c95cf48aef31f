// SPDX-License-Identifier: Apache-2.0
// Activations on a CPU: of finite numbers by oneDNN's vectorised functions, of NaN and infinities by activated().
// Numbers go through in blocks that stay in the second cache; a call of the library costs as much as some thousand of
// them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/elementwise/activation_on_cpu.hpp"
#include "kernels/onednn.hpp"
#include "sluice/kernels/activated.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t most_of_block = 16'384;
constexpr std::size_t least_of_block = 16;

struct block_key {
    std::size_t size;
    activation what;
    friend auto operator<=>(const block_key&, const block_key&) = default;
};

dnnl::algorithm algorithm_of(activation what) {
    switch (what) {
        case activation::gelu: return dnnl::algorithm::eltwise_gelu_erf;
        case activation::sigmoid: return dnnl::algorithm::eltwise_logistic;
        case activation::tanh: return dnnl::algorithm::eltwise_tanh;
        case activation::relu:
        case activation::none:
        case activation::softmax: break;
    }
    return dnnl::algorithm::undef;
}

dnnl::eltwise_forward::primitive_desc describe(const block_key& key) {
    const dnnl::memory::desc x({static_cast<dnnl_dim_t>(key.size)}, dnnl::memory::data_type::f32,
                               dnnl::memory::format_tag::x);
    const auto forward = dnnl::prop_kind::forward_inference;
    const auto attributes = onednn::attributes();
#if DNNL_VERSION_MAJOR >= 3
    return {onednn::engine(), forward, algorithm_of(key.what), x, x, 0, 0, attributes};
#else
    return {{forward, algorithm_of(key.what), x, 0, 0}, attributes, onednn::engine()};
#endif
}

// The library's function for blocks of one size.
class block_function {
public:
    explicit block_function(const dnnl::eltwise_forward::primitive_desc& desc)
        : primitive_(desc),
          x_(desc.src_desc(), onednn::engine(), nullptr),
          scratch_(desc.scratchpad_desc().get_size()),
          scratchpad_(desc.scratchpad_desc(), onednn::engine(), scratch_.data()),
          arguments_{{DNNL_ARG_SRC, x_}, {DNNL_ARG_DST, x_}, {DNNL_ARG_SCRATCHPAD, scratchpad_}} {}

    void run(float* x, dnnl::stream stream) {
        x_.set_data_handle(x);
        primitive_.execute(stream, arguments_);
        stream.wait();
    }

private:
    dnnl::eltwise_forward primitive_;
    dnnl::memory x_;
    std::vector<std::byte> scratch_;
    dnnl::memory scratchpad_;
    std::unordered_map<int, dnnl::memory> arguments_;  // handles of the same memory
};

// A sum of flags, which the compiler vectorises.
bool are_finite(std::span<const float> x) {
    unsigned others = 0;
    for (const float each : x) others |= static_cast<unsigned>(each - each != 0);
    return others == 0;
}

// One thread's.
class block_activations {
public:
    // At most a block.
    void run(std::span<float> x, activation after) {
        const onednn::single_threaded here;
        const bool has_others = !are_finite(x);
        if (has_others) std::copy(x.begin(), x.end(), before_.begin());
        run_library(x, after);
        if (!has_others) return;
        for (std::size_t i = 0; i < x.size(); ++i) {
            if (!std::isfinite(before_[i])) x[i] = activated(before_[i], after);
        }
    }

private:
    // On whole powers of two, so that a few functions are enough.
    void run_library(std::span<float> x, activation after) {
        const block_key key{std::max(std::bit_ceil(x.size()), least_of_block), after};
        auto known = all_.find(key);
        if (known == all_.end()) known = all_.try_emplace(key, describe(key)).first;
        if (key.size == x.size()) return known->second.run(x.data(), stream_);
        std::fill(std::copy(x.begin(), x.end(), padded_.begin()),
                  padded_.begin() + static_cast<std::ptrdiff_t>(key.size), 0.0f);
        known->second.run(padded_.data(), stream_);
        std::copy_n(padded_.begin(), x.size(), x.begin());
    }

    dnnl::stream stream_{onednn::engine()};
    std::map<block_key, block_function> all_;
    std::vector<float> before_ = std::vector<float>(most_of_block), padded_ = before_;
};

}  // namespace

void activate_on_cpu(std::span<float> x, activation after, const error_context& context) try {
    if (after == activation::relu) return rectify_on_cpu(x);
    if (after == activation::none || after == activation::softmax) return;
    auto& mine = onednn::of_this_thread<block_activations>();
    for (; !x.empty(); x = x.subspan(std::min(x.size(), most_of_block))) {
        mine.run(x.first(std::min(x.size(), most_of_block)), after);
    }
} catch (const dnnl::error& refused) {
    throw device_error(make_error_code(errc::device_failed), std::string("oneDNN: ") + refused.what(), context);
}

}  // namespace sluice::kernels
