// gemm on a CPU by oneDNN: an inner product with the bias and the activation fused.
//
// Each worker thread has its own primitives, single-threaded (the workers are the parallelism), each with a
// scratchpad of the caller's: oneDNN 2.6 gives wrong results when a primitive with its own scratchpad runs
// on another thread than the one that made it.
#include <compare>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "kernels/gemm_bodies.hpp"
#include "sluice/runtime/error.hpp"

// OpenMP's own; its header is not there with every compiler that links to the library.
extern "C" void omp_set_num_threads(int threads);

namespace sluice::kernels {
namespace {

// Shapes seen on one thread before the oldest plans are thrown away together.
constexpr std::size_t kept_plans = 256;

struct plan_key {
    std::size_t rows, columns, inner;
    bool b_is_transposed, has_bias;
    activation after;
    friend auto operator<=>(const plan_key&, const plan_key&) = default;
};

const dnnl::engine& engine() {
    static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    return cpu;
}

dnnl::memory::desc matrix(std::size_t rows, std::size_t columns, dnnl::memory::format_tag tag) {
    return {{static_cast<dnnl_dim_t>(rows), static_cast<dnnl_dim_t>(columns)}, dnnl::memory::data_type::f32, tag};
}

void append(dnnl::post_ops& fused, dnnl::algorithm what) {
#if DNNL_VERSION_MAJOR >= 3
    fused.append_eltwise(what, 0, 0);
#else
    fused.append_eltwise(1, what, 0, 0);
#endif
}

dnnl::primitive_attr attributes(activation after) {
    dnnl::post_ops fused;
    switch (after) {
        case activation::relu: append(fused, dnnl::algorithm::eltwise_relu); break;
        case activation::gelu: append(fused, dnnl::algorithm::eltwise_gelu_erf); break;
        case activation::sigmoid: append(fused, dnnl::algorithm::eltwise_logistic); break;
        case activation::tanh: append(fused, dnnl::algorithm::eltwise_tanh); break;
        case activation::none:
        case activation::softmax: break;
    }
    dnnl::primitive_attr all;
    all.set_post_ops(fused);
    all.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return all;
}

class plan {
public:
    explicit plan(const plan_key& key) : plan(key, describe(key)) {}

    void run(const gemm_call& call, dnnl::stream& stream, std::vector<std::byte>& scratch) {
        source_.set_data_handle(const_cast<void*>(call.a));  // oneDNN only reads these
        weights_.set_data_handle(const_cast<void*>(call.b));
        out_.set_data_handle(call.out);
        if (call.bias != nullptr) bias_.set_data_handle(const_cast<void*>(call.bias));
        if (scratch.size() < scratch_bytes_) scratch.resize(scratch_bytes_);
        scratchpad_.set_data_handle(scratch.data());
        product_.execute(stream, arguments_);
        stream.wait();
    }

private:
    using primitive_desc = dnnl::inner_product_forward::primitive_desc;

    static primitive_desc describe(const plan_key& key) {
        using tag = dnnl::memory::format_tag;
        const auto source = matrix(key.rows, key.inner, tag::nc);
        const auto weights = matrix(key.columns, key.inner, key.b_is_transposed ? tag::oi : tag::io);
        const auto out = matrix(key.rows, key.columns, tag::nc);
        const auto forward = dnnl::prop_kind::forward_inference;
        const dnnl::memory::desc bias({static_cast<dnnl_dim_t>(key.columns)}, dnnl::memory::data_type::f32, tag::x);
#if DNNL_VERSION_MAJOR >= 3
        if (!key.has_bias) return {engine(), forward, source, weights, out, attributes(key.after)};
        return {engine(), forward, source, weights, bias, out, attributes(key.after)};
#else
        if (!key.has_bias) return {{forward, source, weights, out}, attributes(key.after), engine()};
        return {{forward, source, weights, bias, out}, attributes(key.after), engine()};
#endif
    }

    plan(const plan_key& key, const primitive_desc& desc)
        : product_(desc),
          source_(desc.src_desc(), engine(), nullptr),
          weights_(desc.weights_desc(), engine(), nullptr),
          out_(desc.dst_desc(), engine(), nullptr),
          scratchpad_(desc.scratchpad_desc(), engine(), nullptr),
          scratch_bytes_(desc.scratchpad_desc().get_size()) {
        arguments_ = {{DNNL_ARG_SRC, source_},
                      {DNNL_ARG_WEIGHTS, weights_},
                      {DNNL_ARG_DST, out_},
                      {DNNL_ARG_SCRATCHPAD, scratchpad_}};
        if (!key.has_bias) return;
        bias_ = dnnl::memory(desc.bias_desc(), engine(), nullptr);
        arguments_.emplace(DNNL_ARG_BIAS, bias_);
    }

    dnnl::inner_product_forward product_;
    dnnl::memory source_, weights_, bias_, out_, scratchpad_;
    std::size_t scratch_bytes_;
    std::unordered_map<int, dnnl::memory> arguments_;
};

struct worker_plans {
    worker_plans() { omp_set_num_threads(1); }

    dnnl::stream stream{engine()};
    std::vector<std::byte> scratch;
    std::map<plan_key, plan> plans;
};

}  // namespace

bool gemm_on_cpu_fuses(activation what) noexcept { return what != activation::softmax; }

void gemm_on_cpu(const gemm_call& call) try {
    thread_local worker_plans mine;
    const gemm_problem& of = call.problem;
    const plan_key key{of.rows, of.columns, of.inner, of.b_is_transposed, call.bias != nullptr, call.after};
    auto known = mine.plans.find(key);
    if (known == mine.plans.end()) {
        // One worker at a time generates code; the next finds it in oneDNN's own cache.
        static std::mutex making;
        const std::lock_guard lock(making);
        if (mine.plans.size() >= kept_plans) mine.plans.clear();
        known = mine.plans.emplace(key, plan(key)).first;
    }
    known->second.run(call, mine.stream, mine.scratch);
} catch (const dnnl::error& refused) {
    throw device_error(make_error_code(errc::device_failed), std::string("oneDNN: ") + refused.what(), {"gemm", "cpu"});
}

}  // namespace sluice::kernels
