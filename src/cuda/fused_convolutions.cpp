// SPDX-License-Identifier: Apache-2.0
#include "cuda/fused_convolutions.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "cuda/api/cudnn.hpp"
#include "cuda/api/handles.hpp"
#include "cuda/api/runtime.hpp"
#include "cuda/api/staying_kernels.hpp"
#include "sluice/cuda/device_context.hpp"

namespace sluice::cuda {
namespace {

using api::check_cudnn;
using api::cudnn_functions;

struct destroy_descriptor {
    using pointer = cudnnBackendDescriptor_t;
    void operator()(cudnnBackendDescriptor_t d) const noexcept {
        static_cast<void>(cudnn_functions::get().destroy_descriptor(d));
    }
};
using descriptor = std::unique_ptr<void, destroy_descriptor>;

descriptor make(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    check_cudnn(cudnn_functions::get().create_descriptor(type, &made), "cudnnBackendCreateDescriptor");
    return descriptor(made);
}

// cuDNN takes the address of the first of `count` values of the type.
void set(const descriptor& of, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
         const void* values) {
    check_cudnn(cudnn_functions::get().set_attribute(of.get(), name, type, count, values), "cudnnBackendSetAttribute");
}
void set(const descriptor& of, cudnnBackendAttributeName_t name, std::int64_t value) {
    set(of, name, CUDNN_TYPE_INT64, 1, &value);
}
void set(const descriptor& of, cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    set(of, name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}
void set(const descriptor& of, cudnnBackendAttributeName_t name, float value) {
    set(of, name, CUDNN_TYPE_FLOAT, 1, &value);
}
void set(const descriptor& of, cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    set(of, name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
void set(const descriptor& of, cudnnBackendAttributeName_t name, const descriptor& value) {
    const cudnnBackendDescriptor_t raw = value.get();
    set(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
}
void finalize(const descriptor& of) { check_cudnn(cudnn_functions::get().finalize(of.get()), "cudnnBackendFinalize"); }

// Names of the tensors of a graph, in the order of their addresses.
enum uid : std::int64_t { of_x = 1, of_filter, of_bias, of_addend, of_out, of_between };

using four = std::array<std::int64_t, 4>;

struct tensor_form {
    cudnnDataType_t type;
    four lengths, steps;
    std::int64_t name;
    std::int64_t alignment;
    bool is_virtual = false;
};

descriptor make_tensor(const tensor_form& form) {
    descriptor made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, form.type);
    set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(form.lengths));
    set(made, CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(form.steps));
    set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, form.name);
    set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, form.alignment);
    if (form.is_virtual) {
        const bool yes = true;
        set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    }
    finalize(made);
    return made;
}

// The operations of one convolution, and all descriptors that they name.
class operations {
public:
    explicit operations(const fused_convolution& of)
        : of_(of), type_(of.is_bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF) {
        const descriptor& x =
            add(make_tensor({type_, {of.images, of.channels, of.height, of.width}, steps(of.x), of_x, of.alignment}));
        const std::int64_t c = of.filter_channels, across = c * of.filter_width;
        const descriptor& filter = add(make_tensor({type_,
                                                    {of.filters, c, of.filter_height, of.filter_width},
                                                    {across * of.filter_height, 1, across, c},
                                                    of_filter,
                                                    16}));
        int left = of.has_addend + of.has_bias + of.has_relu;
        const descriptor* value = &result(left);
        convolve(x, filter, *value);
        if (of.has_addend) {
            const descriptor& addend = add(make_tensor({type_, lengths(), steps(of.addend), of_addend, of.alignment}));
            value = &follow(CUDNN_POINTWISE_ADD, *value, &addend, result(--left));
        }
        if (of.has_bias) {
            const descriptor& bias =
                add(make_tensor({type_, {1, of.filters, 1, 1}, {of.filters, 1, of.filters, of.filters}, of_bias, 16}));
            value = &follow(CUDNN_POINTWISE_ADD, *value, &bias, result(--left));
        }
        if (of.has_relu) follow(CUDNN_POINTWISE_RELU_FWD, *value, nullptr, result(--left));
    }

    descriptor graph(cudnnContext* handle) const {
        descriptor made = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        set(made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
        set(made, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(operations_.size()), operations_.data());
        finalize(made);
        return made;
    }

private:
    static four steps(const image_steps& of) { return {of.image, 1, of.row, of.pixel}; }
    four lengths() const { return {of_.images, of_.filters, of_.out_height, of_.out_width}; }

    const descriptor& add(descriptor one) {
        kept_.push_back(std::make_unique<descriptor>(std::move(one)));
        return *kept_.back();
    }
    // Of an operation that is followed by this many: the last one gives the output, others what is not in memory.
    const descriptor& result(int followers) {
        if (followers == 0) return add(make_tensor({type_, lengths(), steps(of_.out), of_out, of_.alignment}));
        const std::int64_t row = of_.out_width * of_.filters;
        return add(make_tensor({CUDNN_DATA_FLOAT,
                                lengths(),
                                {of_.out_height * row, 1, row, of_.filters},
                                of_between + followers,
                                16,
                                true}));
    }

    void convolve(const descriptor& x, const descriptor& filter, const descriptor& out) {
        const descriptor& how = add(make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
        const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
        set(how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
        set(how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
        set(how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
        set(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span<const std::int64_t>(of_.before));
        set(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span<const std::int64_t>(of_.after));
        set(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span<const std::int64_t>(of_.dilation));
        set(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span<const std::int64_t>(of_.stride));
        finalize(how);
        const descriptor& made = add(make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
        set(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how);
        set(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
        set(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, filter);
        set(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, out);
        set(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f);
        set(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f);
        finalize(made);
        operations_.push_back(made.get());
    }

    const descriptor& follow(cudnnPointwiseMode_t mode, const descriptor& x, const descriptor* with,
                             const descriptor& out) {
        const descriptor& how = add(make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
        set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
        set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
        finalize(how);
        const descriptor& made = add(make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
        set(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
        set(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
        if (with != nullptr) set(made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *with);
        set(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out);
        finalize(made);
        operations_.push_back(made.get());
        return out;
    }

    const fused_convolution& of_;
    const cudnnDataType_t type_;
    std::vector<std::unique_ptr<descriptor>> kept_;
    std::vector<cudnnBackendDescriptor_t> operations_;
};

std::vector<descriptor> configurations(const descriptor& graph, cudnnBackendHeurMode_t mode) {
    const auto& cudnn = cudnn_functions::get();
    const descriptor heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (cudnn.finalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) return {};
    std::int64_t count = 0;
    if (cudnn.get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                            nullptr) != CUDNN_STATUS_SUCCESS)
        return {};
    std::vector<descriptor> made;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::int64_t i = 0; i < count; ++i) {
        made.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
        raw.push_back(made.back().get());
    }
    std::int64_t found = 0;
    if (count == 0 ||
        cudnn.get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                            &found, raw.data()) != CUDNN_STATUS_SUCCESS)
        return {};
    made.resize(static_cast<std::size_t>(std::min(count, found)));
    return made;
}

descriptor engine_of(const descriptor& configuration) {
    descriptor made = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t raw = made.get();
    std::int64_t count = 0;
    check_cudnn(cudnn_functions::get().get_attribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
                "cudnnBackendGetAttribute");
    return made;
}

// Whether its sums are f32, in one order, and of one window each.
bool is_exact(const descriptor& engine) {
    std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
    std::int64_t count = 0;
    check_cudnn(
        cudnn_functions::get().get_attribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                             static_cast<std::int64_t>(notes.size()), &count, notes.data()),
        "cudnnBackendGetAttribute");
    const auto end = notes.begin() + std::clamp<std::int64_t>(count, 0, static_cast<std::int64_t>(notes.size()));
    return std::none_of(notes.begin(), end, [](cudnnBackendNumericalNote_t each) {
        return each != CUDNN_NUMERICAL_NOTE_TENSOR_CORE && each != CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
    });
}

}  // namespace

class fused_convolutions::plan {
public:
    descriptor executes;
    std::int64_t workspace_bytes = 0, engine = 0;
    bool has_bias = false, has_addend = false;
};

struct fused_convolutions::state {
    int ordinal = 0;
    api::cudnn_handle handle;
    std::mutex mutex;  // guards the handle

    std::shared_ptr<const plan> plan_for(const descriptor& configuration, const fused_convolution& of) const {
        try {
            const descriptor engine = engine_of(configuration);
            if (!is_exact(engine)) return nullptr;
            auto made = std::make_shared<plan>();
            made->has_bias = of.has_bias;
            made->has_addend = of.has_addend;
            std::int64_t count = 0;
            const auto& cudnn = cudnn_functions::get();
            static_cast<void>(cudnn.get_attribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                                  &count, &made->engine));
            made->executes = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
            cudnnContext* const raw = handle.get();
            set(made->executes, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &raw);
            set(made->executes, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
            finalize(made->executes);
            check_cudnn(cudnn.get_attribute(made->executes.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                            CUDNN_TYPE_INT64, 1, &count, &made->workspace_bytes),
                        "cudnnBackendGetAttribute");
            const auto most = static_cast<std::int64_t>(most_workspace_bytes);
            return made->workspace_bytes <= most ? made : nullptr;
        } catch (const device_error&) {  // an engine that does not fit after all
            return nullptr;
        }
    }
};

fused_convolutions::fused_convolutions(device_context& of) {
    try {
        static_cast<void>(cudnn_functions::get());
    } catch (const error& refusal) {
        if (refusal.code() != errc::unsupported) throw;
        return;
    }
    const api::no_staying_kernel none_stays("create a handle of cuDNN", {"cuDNN"});
    const api::device_scope scope(of.ordinal());
    auto made = std::make_unique<state>();
    made->ordinal = of.ordinal();
    made->handle = api::create_cudnn(nullptr);
    of.log_handle("cuDNN");
    state_ = std::move(made);
}

fused_convolutions::~fused_convolutions() = default;

auto fused_convolutions::plans(const fused_convolution& of, std::size_t most) const
    -> std::vector<std::shared_ptr<const plan>> {
    std::vector<std::shared_ptr<const plan>> made;
    if (!state_) return made;
    const std::lock_guard lock(state_->mutex);
    const api::device_scope scope(state_->ordinal);
    std::optional<operations> all;
    descriptor graph;
    try {
        all.emplace(of);
        graph = all->graph(state_->handle.get());
    } catch (const device_error&) {  // cuDNN has no such convolution
        return made;
    }
    for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
        if (mode == CUDNN_HEUR_MODE_FALLBACK && !made.empty()) break;
        for (const descriptor& each : configurations(graph, mode)) {
            if (made.size() == most) break;
            if (auto one = state_->plan_for(each, of)) made.push_back(std::move(one));
        }
    }
    return made;
}

void fused_convolutions::run(const plan& with, const fused_operands& on, void* workspace, CUstream_st* stream) const {
    std::array<std::int64_t, 5> names{of_x, of_filter, of_out};
    std::array<const void*, 5> addresses{on.x, on.filter, on.out};
    std::size_t count = 3;
    const auto add = [&](std::int64_t name, const void* address) {
        names[count] = name;
        addresses[count++] = address;
    };
    if (with.has_bias) add(of_bias, on.bias);
    if (with.has_addend) add(of_addend, on.addend);
    const auto size = static_cast<std::int64_t>(count);
    const descriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, size, names.data());
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, size, addresses.data());
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finalize(pack);
    const std::lock_guard lock(state_->mutex);
    api::bind(state_->handle.get(), stream);
    check_cudnn(cudnn_functions::get().execute(state_->handle.get(), with.executes.get(), pack.get()),
                "cudnnBackendExecute", {"convolution"});
}

std::size_t fused_convolutions::workspace_bytes(const plan& of) noexcept {
    return static_cast<std::size_t>(of.workspace_bytes);
}
std::string fused_convolutions::text(const plan& of) { return "cuDNN engine " + std::to_string(of.engine); }

}  // namespace sluice::cuda
