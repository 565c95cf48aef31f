// SPDX-License-Identifier: Apache-2.0
// Convolution by im2col and gemm, in passes of as many images as the workspace has room for. A pass is three commands:
//
//     columns[channels * filter height * filter width, images * positions]   a column is what one output's window holds
//     product[filters, images * positions] = filter * columns                gemm, once for each group
//     out[images, filters, positions] = product, rearranged, plus bias, ReLU
//
// The rows of `columns` that belong to one group are together, as are the filters that read them.
#include <algorithm>
#include <array>

#include "kernels/convolution/convolution_dispatch.hpp"
#include "kernels/gemm/gemm_dispatch.hpp"
#include "sluice/kernels/activated.hpp"
#include "sluice/runtime/detail/closure.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice::kernels {
namespace {

struct im2col_closure {
    convolution_form form;
    std::size_t images;  // of this pass
    const float* x;      // of its first image
    float* columns;

    SLUICE_KERNEL std::size_t row_count() const { return form.channels * form.filter_height * form.filter_width; }
    SLUICE_KERNEL std::size_t column_count() const { return images * form.positions(); }

    // One pixel of the window in a column. Above and left of the image the coordinate wraps round and is too large.
    SLUICE_KERNEL float pixel(std::size_t row, std::size_t image, std::size_t out_y, std::size_t out_x) const {
        const std::size_t across = row % form.filter_width;
        const std::size_t down = row / form.filter_width % form.filter_height;
        const std::size_t channel = row / form.filter_width / form.filter_height;
        const std::size_t at_y = out_y * form.stride.height + down * form.dilation.height - form.padding.height;
        const std::size_t at_x = out_x * form.stride.width + across * form.dilation.width - form.padding.width;
        if (at_y >= form.height || at_x >= form.width) return 0;
        return x[((image * form.channels + channel) * form.height + at_y) * form.width + at_x];
    }
};

void im2col_on_host(const void* closure) {
    const auto all = *static_cast<const im2col_closure*>(closure);
    float* to = all.columns;
    for (std::size_t row = 0; row < all.row_count(); ++row) {
        for (std::size_t image = 0; image < all.images; ++image) {
            for (std::size_t y = 0; y < all.form.out_height; ++y) {
                for (std::size_t x = 0; x < all.form.out_width; ++x) *to++ = all.pixel(row, image, y, x);
            }
        }
    }
}

// From in, where an image's and a filter's positions are so far from the next one's, to the dense out.
struct add_bias_closure {
    const float* in;
    const float* bias;  // or null
    float* out;
    std::size_t images, filters, positions;
    std::size_t image_stride, filter_stride;
    std::size_t has_relu;  // a whole word: closures are compared byte by byte

    SLUICE_KERNEL std::size_t size() const { return images * filters * positions; }
    SLUICE_KERNEL void make_element(std::size_t i) const {
        const std::size_t position = i % positions, filter = i / positions % filters, image = i / positions / filters;
        float value = in[image * image_stride + filter * filter_stride + position];
        if (bias != nullptr) value += bias[filter];
        out[i] = has_relu != 0 ? activated<activation::relu>(value) : value;
    }
};

void add_bias_on_host(const void* closure) {
    const auto all = *static_cast<const add_bias_closure*>(closure);
    for (std::size_t i = 0; i < all.size(); ++i) all.make_element(i);
}

#if defined(__CUDACC__)
constexpr unsigned threads = 256;

// A thread has one column, a block one row or several.
__global__ void __launch_bounds__(threads) im2col_on_device(const __grid_constant__ im2col_closure all) {
    const std::size_t column = std::size_t{blockIdx.x} * threads + threadIdx.x, columns = all.column_count();
    if (column >= columns) return;
    const std::size_t x = column % all.form.out_width;
    const std::size_t y = column / all.form.out_width % all.form.out_height;
    const std::size_t image = column / all.form.positions();
    for (std::size_t row = blockIdx.y; row < all.row_count(); row += gridDim.y) {
        all.columns[row * columns + column] = all.pixel(row, image, y, x);
    }
}

__global__ void __launch_bounds__(threads) add_bias_on_device(const __grid_constant__ add_bias_closure all) {
    const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
    if (i < all.size()) all.make_element(i);
}

unsigned blocks_of(std::size_t elements) { return static_cast<unsigned>((elements + threads - 1) / threads); }
#endif

void launch_im2col(stream on, im2col_closure closure, const tensor<float>& x, storage& workspace,
                   const source_location& location) {
    launch_command command;
#if defined(__CUDACC__)
    command.device_function = reinterpret_cast<const void*>(&im2col_on_device);
    command.grid = {blocks_of(closure.column_count()),
                    static_cast<unsigned>(std::min<std::size_t>(closure.row_count(), 65'535)), 1};
    command.block.x = threads;
#endif
    command.host_function = &im2col_on_host;
    sluice::detail::set_closure(command, closure);
    const std::array accesses{memory_access{x.memory(), access_mode::read},
                              memory_access{&workspace, access_mode::write}};
    on.launch({"im2col", accesses, location}, command);
}

// in: null when out's own elements are changed.
void launch_add_bias(stream on, add_bias_closure closure, storage* in, const tensor<float>* bias,
                     const tensor<float>& out, const source_location& location) {
    launch_command command;
#if defined(__CUDACC__)
    command.device_function = reinterpret_cast<const void*>(&add_bias_on_device);
    command.grid.x = blocks_of(closure.size());
    command.block.x = threads;
#endif
    command.host_function = &add_bias_on_host;
    sluice::detail::set_closure(command, closure);
    const std::array accesses{memory_access{out.memory(), access_mode::write}, memory_access{in, access_mode::read},
                              memory_access{bias != nullptr ? bias->memory() : nullptr, access_mode::read}};
    on.launch({"add_bias", accesses, location}, command);
}

struct grouped_gemm_call {
    gemm_call first;
    std::size_t groups;
};

}  // namespace
}  // namespace sluice::kernels

template <>
[[maybe_unused]] constexpr bool sluice::detail::can_clear_padding<sluice::kernels::grouped_gemm_call> =
    sluice::detail::can_clear_padding<sluice::kernels::gemm_call>;

namespace sluice::kernels {
namespace {

void run_grouped_gemm(const native_stream& on, const void* closure) {
    const auto& all = *static_cast<const grouped_gemm_call*>(closure);
    gemm_call call = all.first;
    for (std::size_t group = 0; group < all.groups; ++group) {
        if (on.kind == device_kind::cuda) {
            gemm_on_cuda(call, on);
        } else {
            gemm_on_cpu(call);
        }
        const gemm_problem& of = call.problem;
        call.a = static_cast<const float*>(call.a) + of.rows * of.inner;
        call.b = static_cast<const float*>(call.b) + of.inner * of.columns;
        call.out = static_cast<float*>(call.out) + of.rows * of.columns;
    }
}

// One workspace for the three: first the columns, then the products, then what gemm's library wants.
struct workspace_plan {
    std::size_t images;  // of a pass
    std::size_t products_at, gemm_at, bytes;
};

workspace_plan plan_workspace(const convolution_form& form, device_kind on) {
    const bool on_gpu = on == device_kind::cuda;
    // On a CPU a pass should stay in the cache of its core.
    const std::size_t limit_bytes = on_gpu ? std::size_t{64} << 20 : std::size_t{1} << 20;
    const auto aligned = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
    const std::size_t rows = form.products() * form.groups;
    const std::size_t image_bytes = shape{rows + form.filters, form.positions(), sizeof(float)}.size();
    const std::size_t images = std::clamp<std::size_t>(limit_bytes / image_bytes, 1, form.images);
    const std::size_t columns = shape{images, form.positions()}.size();
    const std::size_t products_at = aligned(shape{rows, columns, sizeof(float)}.size());
    const std::size_t gemm_at = products_at + aligned(shape{form.filters, columns, sizeof(float)}.size());
    return {images, products_at, gemm_at, gemm_at + (on_gpu ? gemm_on_cuda_workspace_bytes() : 0)};
}

}  // namespace

std::size_t im2col_workspace_bytes(const convolution_form& form, device_kind on) {
    return plan_workspace(form, on).bytes;
}

void convolve_by_im2col(stream on, const convolution_form& form, const tensor<float>& x, const tensor<float>& filter,
                        const tensor<float>* bias, tensor<float>& out, bool has_relu, const source_location& location) {
    const workspace_plan plan = plan_workspace(form, on.owner().kind());
    const storage_ref workspace = on.workspace(plan.bytes);
    auto* const bytes = static_cast<std::byte*>(workspace->data());
    auto* const columns = reinterpret_cast<float*>(bytes);
    auto* const products = reinterpret_cast<float*>(bytes + plan.products_at);
    const std::size_t positions = form.positions();
    const std::array gemm_accesses{memory_access{filter.memory(), access_mode::read},
                                   memory_access{workspace.get(), access_mode::write}};

    for (std::size_t first = 0; first < form.images; first += plan.images) {
        const std::size_t images = std::min(plan.images, form.images - first);
        launch_im2col(on, {form, images, x.device_data() + first * form.channels * form.height * form.width, columns},
                      x, *workspace, location);
        grouped_gemm_call product{
            {filter.device_data(),
             columns,
             nullptr,
             products,
             bytes + plan.gemm_at,
             {gemm_type::f32, false, form.filters / form.groups, images * positions, form.products()},
             activation::none,
             {}},
            form.groups};
        on.library_call({"gemm", gemm_accesses, location},
                        sluice::detail::library_call_with(&run_grouped_gemm, product));
        launch_add_bias(on,
                        {products, bias != nullptr ? bias->device_data() : nullptr,
                         out.device_data() + first * form.filters * positions, images, form.filters, positions,
                         positions, images * positions, has_relu},
                        workspace.get(), bias, out, location);
    }
}

void add_bias(stream on, const convolution_form& form, const tensor<float>* bias, tensor<float>& x, bool has_relu,
              const source_location& location) {
    launch_add_bias(on,
                    {x.device_data(), bias != nullptr ? bias->device_data() : nullptr, x.device_data(), form.images,
                     form.filters, form.positions(), form.filters * form.positions(), form.positions(), has_relu},
                    nullptr, bias, x, location);
}

}  // namespace sluice::kernels
