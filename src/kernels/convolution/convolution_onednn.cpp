// SPDX-License-Identifier: Apache-2.0
// convolution on a CPU by oneDNN, with the bias fused; then the activation.
//
// oneDNN multiplies matrices for dense images, after it has copied each window (im2col). Where that copy costs as much
// as the products, for few filters or one channel a group, it is faster to bring the images into the blocks of channels
// that its own convolutions take, and back. A transposed convolution is oneDNN's deconvolution.
#include <algorithm>
#include <compare>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "kernels/convolution/convolution_dispatch.hpp"
#include "kernels/elementwise/activation_on_cpu.hpp"
#include "kernels/onednn.hpp"
#include "runtime/parallel_parts.hpp"

namespace sluice::kernels {
namespace {

struct plan_key {
    convolution_form form;
    bool has_bias;
    std::size_t all_filters;  // of the transposed convolution, of whose filters these are some; 0: all of them
    friend auto operator<=>(const plan_key&, const plan_key&) = default;
};

template <typename... Sizes>
dnnl::memory::dims dims(Sizes... sizes) {
    return {static_cast<dnnl_dim_t>(sizes)...};
}

using tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

// Dense, or in the layout of another tag.
dnnl::memory::desc source_of(const convolution_form& form, tag as = tag::nchw) {
    return {dims(form.images, form.channels, form.height, form.width), f32, as};
}
dnnl::memory::desc out_of(const convolution_form& form, tag as = tag::nchw) {
    return {dims(form.images, form.filters, form.out_height, form.out_width), f32, as};
}
bool is_transposed(const convolution_form& form) { return form.kind == convolution_kind::transposed; }

dnnl::memory::desc weights_of(const convolution_form& form, bool is_dense = true) {
    const std::size_t groups = form.groups, filters = form.filters / groups, channels = form.channels / groups;
    const std::size_t height = form.filter_height, width = form.filter_width;
    if (groups == 1) {
        const tag dense = is_transposed(form) ? tag::iohw : tag::oihw;
        return {dims(filters, channels, height, width), f32, is_dense ? dense : tag::any};
    }
    const tag dense = is_transposed(form) ? tag::giohw : tag::goihw;
    return {dims(groups, filters, channels, height, width), f32, is_dense ? dense : tag::any};
}
// As the caller has them: some filters of a transposed convolution are not side by side.
dnnl::memory::desc given_weights_of(const plan_key& key) {
    const convolution_form& form = key.form;
    if (key.all_filters == 0) return weights_of(form);
    const std::size_t window = form.filter_height * form.filter_width;
    return {dims(form.filters, form.channels, form.filter_height, form.filter_width), f32,
            dims(window, key.all_filters * window, form.filter_width, std::size_t{1})};
}

// What is cut off after the output of a transposed convolution, or, below 0, is added there.
dnnl_dim_t padding_after(std::size_t input, std::size_t window, std::size_t output, std::size_t stride,
                         std::size_t before, std::size_t dilation) {
    const std::size_t full = (input - 1) * stride + (window - 1) * dilation + 1;
    return static_cast<dnnl_dim_t>(full) - static_cast<dnnl_dim_t>(before + output);
}
dnnl::memory::dims paddings_after(const convolution_form& form) {
    if (!is_transposed(form)) return dims(form.padding.height, form.padding.width);
    return {padding_after(form.height, form.filter_height, form.out_height, form.stride.height, form.padding.height,
                          form.dilation.height),
            padding_after(form.width, form.filter_width, form.out_width, form.stride.width, form.padding.width,
                          form.dilation.width)};
}

template <typename Primitive>
typename Primitive::primitive_desc describe(const plan_key& key, bool is_dense) {
    const convolution_form& form = key.form;
    const dnnl::memory::desc source = source_of(form, is_dense ? tag::nchw : tag::any);
    const dnnl::memory::desc weights = weights_of(form, is_dense);
    const dnnl::memory::desc bias(dims(form.filters), f32, tag::x);
    const dnnl::memory::desc out = out_of(form, is_dense ? tag::nchw : tag::any);
    const auto strides = dims(form.stride.height, form.stride.width);
    const auto before = dims(form.padding.height, form.padding.width), after = paddings_after(form);
    const auto dilates = dims(form.dilation.height - 1, form.dilation.width - 1);  // 0 is none there
    const auto forward = dnnl::prop_kind::forward_inference;
    const auto direct =
        is_transposed(form) ? dnnl::algorithm::deconvolution_direct : dnnl::algorithm::convolution_direct;
    const auto attributes = onednn::attributes();
#if DNNL_VERSION_MAJOR >= 3
    if (!key.has_bias) {
        return {onednn::engine(), forward, direct, source, weights, out, strides, dilates, before, after, attributes};
    }
    return {onednn::engine(), forward, direct, source, weights, bias, out, strides, dilates, before, after, attributes};
#else
    if (!key.has_bias) {
        return {{forward, direct, source, weights, out, strides, dilates, before, after}, attributes, onednn::engine()};
    }
    return {
        {forward, direct, source, weights, bias, out, strides, dilates, before, after}, attributes, onednn::engine()};
#endif
}

// Elements that im2col would copy, at least, for blocks to be worth their copies; and the most filters.
constexpr std::size_t least_copied = 20'000, most_filters_in_blocks = 192;

// A vector's elements: fewer channels or filters leave a part of each vector empty.
constexpr std::size_t block_of_channels = 16;

bool may_gain_from_blocks(const plan_key& key) {
    const convolution_form& form = key.form;
    const bool is_depthwise = form.groups == form.channels && form.groups == form.filters;
    if (is_transposed(form)) {  // the copies that im2col makes are of the size of the products here
        const std::size_t filters = key.all_filters != 0 ? key.all_filters : form.filters;  // one way for all parts
        return is_depthwise || (form.groups == 1 && form.channels % block_of_channels == 0 &&
                                filters % block_of_channels == 0 && form.filter_height * form.filter_width > 4);
    }
    const std::size_t copied = form.images * form.channels * form.filter_height * form.filter_width * form.positions();
    return form.filter_height * form.filter_width > 1 && copied >= least_copied &&
           (is_depthwise || (form.groups == 1 && form.filters <= most_filters_in_blocks));
}

// In oneDNN's layouts where that is faster, else in dense ones.
template <typename Primitive>
typename Primitive::primitive_desc choose(const plan_key& key) {
    if (may_gain_from_blocks(key)) {
        try {
            const auto made = describe<Primitive>(key, false);
            const std::string_view how = made.impl_info_str();
            if (how.starts_with("jit") || how.starts_with("brg")) return made;  // no im2col
        } catch (const dnnl::error&) {  // NOLINT(bugprone-empty-catch): this version has none
        }
    }
    return describe<Primitive>(key, true);
}

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// An operand that the convolution takes in a layout of its own: in scratch memory, by a copy.
class other_layout {
public:
    other_layout() = default;
    other_layout(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
        if (from == to) return;
        from_ = dnnl::memory(from, onednn::engine(), nullptr);
        to_ = dnnl::memory(to, onednn::engine(), nullptr);
        const dnnl::reorder::primitive_desc desc(onednn::engine(), from, onednn::engine(), to, onednn::attributes());
        scratchpad_ = dnnl::memory(desc.scratchpad_desc(), onednn::engine(), nullptr);
        scratch_bytes_ = desc.scratchpad_desc().get_size();
        copy_ = dnnl::reorder(desc);
        is_needed_ = true;
    }

    bool is_needed() const noexcept { return is_needed_; }
    std::size_t scratch_bytes() const noexcept { return scratch_bytes_; }
    void copy(const void* from, void* to, void* scratch, dnnl::stream stream) {
        from_.set_data_handle(const_cast<void*>(from));  // oneDNN only reads it
        to_.set_data_handle(to);
        scratchpad_.set_data_handle(scratch);
        copy_.execute(stream, {{DNNL_ARG_FROM, from_}, {DNNL_ARG_TO, to_}, {DNNL_ARG_SCRATCHPAD, scratchpad_}});
        stream.wait();
    }

private:
    bool is_needed_ = false;
    std::size_t scratch_bytes_ = 0;
    dnnl::memory from_, to_, scratchpad_;
    dnnl::reorder copy_;
};

template <typename Primitive>
class primitive_plan {
public:
    explicit primitive_plan(const plan_key& key) : primitive_plan(key, choose<Primitive>(key)) {}

    // The operands in layouts of their own, then what one of the copies or the convolution needs.
    std::size_t scratch_bytes() const noexcept { return operand_bytes_ + shared_bytes_; }

    void run(const float* source, const float* weights, const float* bias, float* out, void* scratch,
             dnnl::stream stream) {
        auto* place = static_cast<std::byte*>(scratch);
        void* const shared = place + operand_bytes_;
        const auto taken = [&](other_layout& as, const float* dense, std::size_t bytes) {
            if (!as.is_needed()) return dense;
            auto* const here = reinterpret_cast<float*>(std::exchange(place, place + bytes));
            as.copy(dense, here, shared, stream);
            return static_cast<const float*>(here);
        };
        source = taken(source_, source, source_bytes_);
        weights = taken(weights_, weights, weights_bytes_);
        if (!out_.is_needed()) return product_.run(source, weights, bias, out, shared, stream);
        product_.run(source, weights, bias, reinterpret_cast<float*>(place), shared, stream);
        out_.copy(place, out, shared, stream);
    }

private:
    primitive_plan(const plan_key& key, const typename Primitive::primitive_desc& desc)
        : source_(source_of(key.form), desc.src_desc()),
          weights_(given_weights_of(key), desc.weights_desc()),
          out_(desc.dst_desc(), out_of(key.form)),
          product_(desc, key.has_bias),
          source_bytes_(source_.is_needed() ? aligned(desc.src_desc().get_size()) : 0),
          weights_bytes_(weights_.is_needed() ? aligned(desc.weights_desc().get_size()) : 0),
          operand_bytes_(source_bytes_ + weights_bytes_ + (out_.is_needed() ? aligned(desc.dst_desc().get_size()) : 0)),
          shared_bytes_(std::max(
              {product_.scratch_bytes(), source_.scratch_bytes(), weights_.scratch_bytes(), out_.scratch_bytes()})) {}

    other_layout source_, weights_, out_;
    onednn::plan<Primitive> product_;
    std::size_t source_bytes_, weights_bytes_, operand_bytes_, shared_bytes_;
};

class convolution_plan {
public:
    explicit convolution_plan(const plan_key& key)
        : plan_(is_transposed(key.form) ? any(std::in_place_type<primitive_plan<dnnl::deconvolution_forward>>, key)
                                        : any(std::in_place_type<primitive_plan<dnnl::convolution_forward>>, key)) {}

    std::size_t scratch_bytes() const {
        return std::visit([](const auto& its) { return its.scratch_bytes(); }, plan_);
    }
    void run(const float* source, const float* weights, const float* bias, float* out, void* scratch,
             const dnnl::stream& stream) {
        std::visit([&](auto& its) { its.run(source, weights, bias, out, scratch, stream); }, plan_);
    }

private:
    using any = std::variant<primitive_plan<dnnl::convolution_forward>, primitive_plan<dnnl::deconvolution_forward>>;
    any plan_;
};

// How a convolution is divided: by images, or by groups, or by filters.
struct division {
    std::size_t parts, size, unit;
    std::size_t convolution_form::* counted;
};

// Products, and elements with what it costs to move one, in a part that another worker may carry out: some 100 µs.
constexpr std::size_t least_of_part = std::size_t{4} << 20, products_of_element = 16;
// Each part copies all windows of its image.
constexpr std::size_t least_filters = 64;

division divided(const convolution_form& form) {
    const std::size_t outputs = form.images * form.filters * form.positions();
    const std::size_t inputs = form.images * form.channels * form.height * form.width;
    const std::size_t window = form.filter_height * form.filter_width;
    const std::size_t products =
        is_transposed(form) ? inputs * (form.filters / form.groups) * window : outputs * form.products();
    const std::size_t work = products + (inputs + outputs) * products_of_element;
    const auto by = [&](std::size_t size, std::size_t unit, std::size_t convolution_form::* counted) {
        return division{sluice::detail::parts_for(work, least_of_part, size / unit), size, unit, counted};
    };
    if (form.images > 1) return by(form.images, 1, &convolution_form::images);
    if (form.groups > 1) return by(form.groups, 1, &convolution_form::groups);
    return by(form.filters, least_filters, &convolution_form::filters);
}

// The part of the convolution with these images, groups or filters.
convolution_call part_of(const convolution_call& all, const division& how, const sluice::detail::part_range& range) {
    convolution_call some = all;
    const convolution_form& form = all.form;
    const std::size_t count = range.last - range.first;
    const std::size_t window = form.filter_height * form.filter_width;
    const bool is_strided = is_transposed(form) && form.groups == 1;  // the filters of one channel are side by side
    const auto skip_filters = [&](std::size_t filters) {
        some.filter += filters * (is_strided ? window : form.products());
        if (some.bias != nullptr) some.bias += filters;
        some.out += filters * form.positions();
    };
    if (how.counted == &convolution_form::images) {
        some.x += range.first * form.channels * form.height * form.width;
        some.out += range.first * form.filters * form.positions();
    } else if (how.counted == &convolution_form::groups) {
        const std::size_t channels = form.channels / form.groups, filters = form.filters / form.groups;
        some.x += range.first * channels * form.height * form.width;
        skip_filters(range.first * filters);
        some.form.channels = count * channels;
        some.form.filters = count * filters;
    } else {
        skip_filters(range.first);
    }
    some.form.*how.counted = count;
    return some;
}

void convolve(const convolution_call& call, std::size_t all_filters, std::span<std::byte> scratch) {
    auto& mine = onednn::of_this_thread<onednn::thread_plans<plan_key, convolution_plan>>();
    const convolution_form& form = call.form;
    const error_context context{"convolution", "cpu"};
    mine.run({form, call.bias != nullptr, all_filters}, context, scratch, call.x, call.filter, call.bias, call.out);
    activate_on_cpu({call.out, form.images * form.filters * form.positions()}, call.after);
}

}  // namespace

// Parts take their threads' own scratch memory.
std::optional<std::size_t> convolution_on_cpu_workspace_bytes(const convolution_form& form) {
    thread_local std::map<plan_key, std::optional<std::size_t>> known;
    const plan_key key{form, true, 0};
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    if (known.size() >= onednn::kept_plans) known.clear();
    std::optional<std::size_t> bytes;
    try {
        const onednn::single_threaded here;
        // With a bias or without: the caller need not know yet.
        bytes = std::max(convolution_plan(key).scratch_bytes(), convolution_plan({form, false, 0}).scratch_bytes());
        if (divided(form).parts > 1) bytes = 0;
    } catch (const dnnl::error&) {  // NOLINT(bugprone-empty-catch): not done by this version; im2col does it
    }
    return known.emplace(key, bytes).first->second;
}

void convolution_on_cpu(const convolution_call& call) {
    const division how = divided(call.form);
    if (how.parts == 1) return convolve(call, 0, {static_cast<std::byte*>(call.workspace), call.workspace_bytes});
    const bool is_by_filters = how.counted == &convolution_form::filters;
    const std::size_t all_filters = is_transposed(call.form) && is_by_filters ? call.form.filters : 0;
    sluice::detail::for_parts(how.parts, [&](std::size_t part) {
        convolve(part_of(call, how, sluice::detail::range_of_part(how.size, how.parts, part, how.unit)), all_filters,
                 {});
    });
}

}  // namespace sluice::kernels
