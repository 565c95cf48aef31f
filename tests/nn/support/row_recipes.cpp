// SPDX-License-Identifier: Apache-2.0
#include "nn/support/row_recipes.hpp"

#include <memory>
#include <utility>

#include "nn/small_models.hpp"
#include "sluice/io/dtype.hpp"

namespace sluice::nn::testing {
namespace {

using ints = std::vector<std::int64_t>;
using strings = std::vector<std::string>;
using recipe_function = std::function<strings(row_network&, const std::string&)>;

constexpr std::int64_t one = 1, zero = 0;

// Small numbers, none of them 0, the same each time.
std::vector<float> some(std::size_t count) {
    std::vector<float> made(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = 0.25f * static_cast<float>(i * 7 % 9) - 0.9f;
    return made;
}

// --- other shapes and types of the rows -------------------------------------------------------------------------

std::string reshaped(row_network& to, const std::string& x, ints shape) {
    return to.add("Reshape", {x, to.integers(shape)});
}
// [rows, 1, 2, 2]
std::string as_image(row_network& to, const std::string& x) { return reshaped(to, x, {0, 1, 2, 2}); }
// [rows, 2, 2]
std::string as_matrices(row_network& to, const std::string& x) { return reshaped(to, x, {0, 2, 2}); }
// The place of the largest number: [rows, 1], i64, 0 to 3.
std::string as_index(row_network& to, const std::string& x) { return to.add("ArgMax", {x}, {{"axis", one}}); }
std::string as_integers(row_network& to, const std::string& x) {
    return to.add("Cast", {as_index(to, x)}, {{"to", std::int64_t{12}}});  // u32
}
std::string as_truth(row_network& to, const std::string& x) {
    return to.add("Greater", {x, to.constant_of({0.5f}, {})});
}
// u8 [rows, 4]
std::string as_quantized(row_network& to, const std::string& x) {
    return to.add("QuantizeLinear",
                  {x, to.constant_of({0.1f}, {}), to.add("Cast", {to.integer(100)}, {{"to", std::int64_t{2}}})});
}
std::string row_count_of(row_network& to, const std::string& x) {
    return to.add("Gather", {to.add("Shape", {x}), to.integer(0)});
}

// --- lists ----------------------------------------------------------------------------------------------------

void add_elementwise(std::vector<row_recipe>& all) {
    for (const char* const each : {"Identity",
                                   "Neg",
                                   "Abs",
                                   "Sqrt",
                                   "Exp",
                                   "Log",
                                   "Sin",
                                   "Cos",
                                   "Tan",
                                   "Asin",
                                   "Acos",
                                   "Atan",
                                   "Sinh",
                                   "Cosh",
                                   "Tanh",
                                   "Asinh",
                                   "Acosh",
                                   "Atanh",
                                   "Erf",
                                   "Floor",
                                   "Ceil",
                                   "Round",
                                   "Sign",
                                   "Reciprocal",
                                   "Relu",
                                   "Sigmoid",
                                   "Softplus",
                                   "Elu",
                                   "LeakyRelu",
                                   "Selu",
                                   "Celu",
                                   "Swish",
                                   "HardSwish",
                                   "Mish",
                                   "Softsign",
                                   "HardSigmoid",
                                   "ThresholdedRelu",
                                   "Shrink",
                                   "Gelu",
                                   "IsNaN",
                                   "IsInf",
                                   "Dropout"})
        all.push_back({each, true, [=](row_network& to, const std::string& x) { return strings{to.add(each, {x})}; }});
    for (const char* const each : {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "PRelu", "Less",
                                   "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"})
        all.push_back({each, true, [=](row_network& to, const std::string& x) {
                           return strings{to.add(each, {x, to.constant_of(some(4), {4})})};
                       }});
    for (const char* const each : {"And", "Or", "Xor"})
        all.push_back({each, true, [=](row_network& to, const std::string& x) {
                           const std::string truth = as_truth(to, x);
                           return strings{to.add(each, {truth, to.add("IsNaN", {x})})};
                       }});
    for (const char* const each : {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"})
        all.push_back({each, true, [=](row_network& to, const std::string& x) {
                           recipe_attributes with;
                           if (std::string_view(each) == "BitShift") with.emplace("direction", "LEFT");
                           const std::string its = as_integers(to, x);
                           return strings{to.add(each, {its, its}, with)};
                       }});
    const auto keep = [&](std::string op, recipe_function write) {
        all.push_back({std::move(op), true, std::move(write)});
    };
    keep("Mod", [](row_network& to, const std::string& x) {
        return strings{to.add("Mod", {x, to.constant_of({0.7f}, {})}, {{"fmod", one}})};
    });
    keep("Not", [](row_network& to, const std::string& x) { return strings{to.add("Not", {as_truth(to, x)})}; });
    keep("BitwiseNot",
         [](row_network& to, const std::string& x) { return strings{to.add("BitwiseNot", {as_integers(to, x)})}; });
    keep("Where", [](row_network& to, const std::string& x) {
        return strings{to.add("Where", {as_truth(to, x), x, to.constant_of(some(4), {1, 4})})};
    });
    keep("Clip", [](row_network& to, const std::string& x) {
        return strings{to.add("Clip", {x, to.constant_of({-3}, {}), to.constant_of({1000}, {})})};
    });
    keep("Cast", [](row_network& to, const std::string& x) {
        return strings{to.add("Cast", {x}, {{"to", std::int64_t{11}}})};
    });
    keep("CastLike",
         [](row_network& to, const std::string& x) { return strings{to.add("CastLike", {x, to.integer(1)})}; });
    keep("BitCast", [](row_network& to, const std::string& x) {
        return strings{to.add("BitCast", {x}, {{"to", std::int64_t{6}}})};
    });
    keep("SwiGLU", [](row_network& to, const std::string& x) { return strings{to.add("SwiGLU", {x, x})}; });
    keep("QuantizeLinear", [](row_network& to, const std::string& x) { return strings{as_quantized(to, x)}; });
    keep("DequantizeLinear", [](row_network& to, const std::string& x) {
        return strings{to.add("DequantizeLinear", {as_quantized(to, x), to.constant_of({0.1f}, {})})};
    });
    for (const char* const each : {"Adagrad", "Momentum"})
        keep(std::string("ai.onnx.preview.training.") + each, [=](row_network& to, const std::string& x) {
            recipe_attributes with{{"norm_coefficient", 0.1f}};
            if (std::string_view(each) == "Momentum") {
                with.emplace("alpha", 0.5f);
                with.emplace("beta", 0.5f);
                with.emplace("mode", "standard");
            }
            return to.node_of(2, std::string("ai.onnx.preview.training.") + each,
                              {to.constant_of({0.1f}, {}), to.integer(2), x, to.add("Neg", {x}), to.add("Abs", {x})},
                              with);
        });
    keep("ai.onnx.preview.training.Adam", [](row_network& to, const std::string& x) {
        const std::string size = to.add("Abs", {x});
        return to.node_of(3, "ai.onnx.preview.training.Adam",
                          {to.constant_of({0.1f}, {}), to.integer(2), x, x, x, size});
    });
}

void add_shapes(std::vector<row_recipe>& all) {
    const auto add = [&](const char* op, bool keeps, recipe_function write) {
        all.push_back({op, keeps, std::move(write)});
    };
    add("Reshape", true, [](row_network& to, const std::string& x) { return strings{reshaped(to, x, {-1, 2, 2})}; });
    add("Reshape", false, [](row_network& to, const std::string& x) { return strings{reshaped(to, x, {4, -1})}; });
    add("Flatten", true,
        [](row_network& to, const std::string& x) { return strings{to.add("Flatten", {as_image(to, x)})}; });
    add("Unsqueeze", true,
        [](row_network& to, const std::string& x) { return strings{to.add("Unsqueeze", {x, to.integers({1})})}; });
    add("Squeeze", true, [](row_network& to, const std::string& x) {
        return strings{to.add("Squeeze", {to.add("Unsqueeze", {x, to.integers({1})}), to.integers({1})})};
    });
    add("Squeeze", false, [](row_network& to, const std::string& x) { return strings{to.add("Squeeze", {x})}; });
    add("ConstantOfShape", true, [](row_network& to, const std::string& x) {
        return strings{to.add("ConstantOfShape", {to.add("Shape", {x})})};
    });
    add("Expand", true, [](row_network& to, const std::string& x) {
        return strings{to.add("Expand", {to.constant_of(some(4), {1, 4}), to.add("Shape", {x})})};
    });
    // x[range(rows), the largest]
    const auto by_number = [](row_network& to, const std::string& x, bool is_first) {
        const std::string numbers = to.add("Range", {to.integer(0), row_count_of(to, x), to.integer(1)});
        const std::string rows = to.add("Unsqueeze", {numbers, to.integers({-1})}), index = as_index(to, x);
        return to.add("Concat", is_first ? strings{rows, index} : strings{index, rows}, {{"axis", one}});
    };
    add("Range", true, [=](row_network& to, const std::string& x) {
        return strings{to.add("GatherND", {x, by_number(to, x, true)})};
    });
    add("Range", false, [](row_network& to, const std::string& x) {
        return strings{to.add("Range", {to.integer(0), row_count_of(to, x), to.integer(1)})};
    });
    add("GatherND", true, [=](row_network& to, const std::string& x) {
        return strings{to.add("GatherND", {x, as_index(to, x)}, {{"batch_dims", one}})};
    });
    add("GatherND", false, [](row_network& to, const std::string& x) {
        const std::string first = to.add("Mul", {as_index(to, x), to.integer(0)});
        return strings{to.add("GatherND", {x, first})};
    });
    add("ScatterND", true, [=](row_network& to, const std::string& x) {
        return strings{to.add("ScatterND", {x, by_number(to, x, true),
                                            to.add("ReduceSum", {x, to.integers({1})}, {{"keepdims", zero}})})};
    });
    add("ScatterND", false, [](row_network& to, const std::string& x) {
        const std::string first = to.add("Mul", {as_index(to, x), to.integer(0)});
        return strings{to.add("ScatterND", {x, first, x}, {{"reduction", "add"}})};
    });
}

void add_movement(std::vector<row_recipe>& all) {
    const auto add = [&](const char* op, bool keeps, recipe_function write) {
        all.push_back({op, keeps, std::move(write)});
    };
    add("Transpose", true, [](row_network& to, const std::string& x) { return strings{to.add("Transpose", {x})}; });
    add("Tile", true,
        [](row_network& to, const std::string& x) { return strings{to.add("Tile", {x, to.integers({1, 3})})}; });
    add("Tile", false, [](row_network& to, const std::string& x) {
        return strings{to.add("ReduceMax",
                              {reshaped(to, to.add("Tile", {x, to.integers({2, 1})}), {-1, 2, 4}), to.integers({1})})};
    });
    add("Slice", true, [](row_network& to, const std::string& x) {
        return strings{to.add("Slice", {x, to.integers({1}), to.integers({3}), to.integers({1})})};
    });
    add("Slice", false, [](row_network& to, const std::string& x) {  // backwards
        return strings{
            to.add("Slice", {x, to.integers({-1}), to.integers({-1000}), to.integers({0}), to.integers({-1})})};
    });
    add("Split", true, [](row_network& to, const std::string& x) {
        return to.node_of(2, "Split", {x, to.integers({1, 3})}, {{"axis", one}});
    });
    add("Concat", true, [](row_network& to, const std::string& x) {
        return strings{to.add("Concat", {x, to.add("Neg", {x})}, {{"axis", one}})};
    });
    add("Concat", false, [](row_network& to, const std::string& x) {
        const std::string twice = to.add("Concat", {x, to.add("Neg", {x})}, {{"axis", zero}});
        return strings{to.add("ReduceMax", {reshaped(to, twice, {-1, 2, 4}), to.integers({1})})};
    });
    add("DepthToSpace", true, [](row_network& to, const std::string& x) {
        return strings{to.add("DepthToSpace", {reshaped(to, x, {0, 4, 1, 1})}, {{"blocksize", std::int64_t{2}}})};
    });
    add("SpaceToDepth", true, [](row_network& to, const std::string& x) {
        return strings{to.add("SpaceToDepth", {as_image(to, x)}, {{"blocksize", std::int64_t{2}}})};
    });
    add("Pad", true,
        [](row_network& to, const std::string& x) { return strings{to.add("Pad", {x, to.integers({0, 1, 0, 2})})}; });
    add("Pad", false, [](row_network& to, const std::string& x) {  // moves the rows on
        return strings{to.add("Pad", {x, to.integers({1, 0, -1, 0})})};
    });
    add("Trilu", true,
        [](row_network& to, const std::string& x) { return strings{to.add("Trilu", {as_matrices(to, x)})}; });
    add("Trilu", false, [](row_network& to, const std::string& x) { return strings{to.add("Trilu", {x})}; });
    add("ReverseSequence", true, [](row_network& to, const std::string& x) {
        const std::string lengths = to.add("Add", {reshaped(to, as_index(to, x), {-1}), to.integer(1)});
        return strings{to.add("ReverseSequence", {x, lengths}, {{"batch_axis", zero}, {"time_axis", one}})};
    });
    add("CenterCropPad", true, [](row_network& to, const std::string& x) {
        return strings{to.add("CenterCropPad", {x, to.integers({2})}, {{"axes", ints{1}}})};
    });
    add("CenterCropPad", false, [](row_network& to, const std::string& x) {
        return strings{to.add(
            "CenterCropPad",
            {reshaped(to, to.add("Concat", {x, x}, {{"axis", one}}), {-1, 4}), to.add("Shape", {x}, {{"end", one}})},
            {{"axes", ints{0}}})};
    });
}

void add_indexing(std::vector<row_recipe>& all) {
    const auto add = [&](const char* op, bool keeps, recipe_function write) {
        all.push_back({op, keeps, std::move(write)});
    };
    add("Gather", true, [](row_network& to, const std::string& x) {
        return strings{to.add("Gather", {to.constant_of(some(12), {4, 3}), as_index(to, x)}),
                       to.add("Gather", {x, to.integers({2, 0})}, {{"axis", one}})};
    });
    add("Gather", false, [](row_network& to, const std::string& x) {
        const std::string first = to.add("Mul", {reshaped(to, as_index(to, x), {-1}), to.integer(0)});
        return strings{to.add("Gather", {x, first})};
    });
    add("GatherElements", true, [](row_network& to, const std::string& x) {
        return strings{to.add("GatherElements", {x, as_index(to, x)}, {{"axis", one}})};
    });
    add("GatherElements", false, [](row_network& to, const std::string& x) {
        return strings{to.add("GatherElements", {x, to.add("Mul", {as_index(to, x), to.integer(0)})})};
    });
    for (const char* const each : {"ScatterElements", "Scatter"}) {
        add(each, true, [=](row_network& to, const std::string& x) {
            return strings{
                to.add(each, {x, as_index(to, x), to.add("ReduceSum", {x, to.integers({1})})}, {{"axis", one}})};
        });
        add(each, false, [=](row_network& to, const std::string& x) {
            const std::string first = to.add("Mul", {as_index(to, x), to.integer(0)});
            return strings{to.add(each, {x, first, to.add("ReduceSum", {x, to.integers({1})})})};
        });
    }
    add("TensorScatter", true, [](row_network& to, const std::string& x) {
        const std::string step = reshaped(
            to, to.add("Cast", {as_truth(to, to.add("ReduceSum", {x, to.integers({1})}))}, {{"to", std::int64_t{7}}}),
            {-1});
        return strings{to.add(
            "TensorScatter",
            {as_matrices(to, x),
             to.add("Slice", {as_matrices(to, x), to.integers({0}), to.integers({1}), to.integers({1})}), step})};
    });
    add("OneHot", true, [](row_network& to, const std::string& x) {
        return strings{to.add("OneHot", {as_index(to, x), to.integer(4), to.constant_of({0, 1}, {2})})};
    });
}

void add_products(std::vector<row_recipe>& all) {
    const auto add = [&](const char* op, bool keeps, recipe_function write) {
        all.push_back({op, keeps, std::move(write)});
    };
    add("MatMul", true, [](row_network& to, const std::string& x) {
        return strings{to.add("MatMul", {x, to.constant_of(some(12), {4, 3})}),
                       to.add("MatMul", {as_matrices(to, x), as_matrices(to, x)})};
    });
    add("MatMul", false, [](row_network& to, const std::string& x) {
        const std::string squares = to.add("MatMul", {to.add("Transpose", {x}), x});
        return strings{to.add("MatMul", {x, squares})};
    });
    add("Gemm", true, [](row_network& to, const std::string& x) {
        return strings{
            to.add("Gemm", {x, to.constant_of(some(12), {3, 4}), to.constant_of(some(3), {3})}, {{"transB", one}})};
    });
    add("Gemm", false, [](row_network& to, const std::string& x) {
        return strings{to.add("MatMul", {x, to.add("Gemm", {x, x}, {{"transA", one}})})};
    });
    add("Einsum", true, [](row_network& to, const std::string& x) {
        return strings{to.add("Einsum", {x, to.constant_of(some(12), {4, 3})}, {{"equation", "ni,ij->nj"}})};
    });
    add("Einsum", false, [](row_network& to, const std::string& x) {
        return strings{to.add("Einsum", {x, x, x}, {{"equation", "ni,mi,mj->nj"}})};
    });
    add("Det", true,
        [](row_network& to, const std::string& x) { return strings{to.add("Det", {as_matrices(to, x)})}; });
    const auto weights = [](row_network& to) {
        return to.add("Cast", {to.integers({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8})}, {{"to", std::int64_t{2}}});
    };
    add("MatMulInteger", true, [=](row_network& to, const std::string& x) {
        return strings{to.add("MatMulInteger", {as_quantized(to, x), reshaped(to, weights(to), {4, 3})})};
    });
    add("MatMulInteger", false, [=](row_network& to, const std::string& x) {
        const std::string q = as_quantized(to, x), squares = to.add("MatMulInteger", {to.add("Transpose", {q}), q});
        return strings{to.add("MatMul", {x, to.add("Cast", {squares}, {{"to", one}})})};
    });
    add("QLinearMatMul", true, [=](row_network& to, const std::string& x) {
        const std::string scale = to.constant_of({0.1f}, {}),
                          moved = to.add("Cast", {to.integer(7)}, {{"to", std::int64_t{2}}});
        return strings{to.add("QLinearMatMul", {as_quantized(to, x), scale, moved, reshaped(to, weights(to), {4, 3}),
                                                scale, moved, scale, moved})};
    });
}

void add_images(std::vector<row_recipe>& all) {
    const auto add = [&](const char* op, bool keeps, recipe_function write) {
        all.push_back({op, keeps, std::move(write)});
    };
    const recipe_attributes window{{"kernel_shape", ints{2, 2}}};
    add("Conv", true, [](row_network& to, const std::string& x) {
        return strings{
            to.add("Conv", {as_image(to, x), to.constant_of(some(12), {3, 1, 2, 2})}, {{"pads", ints{0, 0, 1, 1}}})};
    });
    add("ConvTranspose", true, [](row_network& to, const std::string& x) {
        return strings{to.add("ConvTranspose", {as_image(to, x), to.constant_of(some(12), {1, 3, 2, 2})})};
    });
    const auto filters = [](row_network& to) {
        return reshaped(to, to.add("Cast", {to.integers({3, 1, 4, 1})}, {{"to", std::int64_t{2}}}), {1, 1, 2, 2});
    };
    add("ConvInteger", true, [=](row_network& to, const std::string& x) {
        return strings{to.add("ConvInteger", {as_image(to, as_quantized(to, x)), filters(to)})};
    });
    add("QLinearConv", true, [=](row_network& to, const std::string& x) {
        const std::string scale = to.constant_of({0.1f}, {}),
                          moved = to.add("Cast", {to.integer(7)}, {{"to", std::int64_t{2}}});
        return strings{to.add(
            "QLinearConv", {as_image(to, as_quantized(to, x)), scale, moved, filters(to), scale, moved, scale, moved})};
    });
    add("DeformConv", true, [](row_network& to, const std::string& x) {
        const std::string offsets =
            to.add("Clip", {reshaped(to, x, {0, 4, 1, 1}), to.constant_of({-1}, {}), to.constant_of({1}, {})});
        const std::string all_offsets = to.add("Concat", {offsets, offsets}, {{"axis", one}});
        return strings{to.add("DeformConv", {as_image(to, x), to.constant_of(some(4), {1, 1, 2, 2}), all_offsets})};
    });
    add("CausalConvWithState", true, [](row_network& to, const std::string& x) {
        return strings{to.add("CausalConvWithState", {as_matrices(to, x), to.constant_of(some(4), {2, 1, 2})})};
    });
    add("Col2Im", true, [](row_network& to, const std::string& x) {
        return strings{to.add("Col2Im", {reshaped(to, x, {0, 4, 1}), to.integers({2, 2}), to.integers({2, 2})})};
    });
    for (const char* const each : {"MaxPool", "AveragePool", "LpPool"})
        add(each, true,
            [=](row_network& to, const std::string& x) { return strings{to.add(each, {as_image(to, x)}, window)}; });
    add("MaxPool", false,
        [=](row_network& to, const std::string& x) { return to.node_of(2, "MaxPool", {as_image(to, x)}, window); });
    for (const char* const each : {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"})
        add(each, true,
            [=](row_network& to, const std::string& x) { return strings{to.add(each, {as_image(to, x)})}; });
    add("Resize", true, [](row_network& to, const std::string& x) {
        return strings{
            to.add("Resize", {as_image(to, x), "", to.constant_of({1, 1, 2, 2}, {4})}, {{"mode", "linear"}})};
    });
    // The same number of rows, from places between them.
    add("Resize", false, [](row_network& to, const std::string& x) {
        const std::string twice =
            to.add("Resize", {as_image(to, x), "", to.constant_of({2, 1, 1, 1}, {4})}, {{"mode", "linear"}});
        return strings{to.add("ReduceMax", {reshaped(to, twice, {-1, 2, 4}), to.integers({1})})};
    });
    all.push_back({"Upsample", true,
                   [](row_network& to, const std::string& x) {
                       return strings{to.add("Upsample", {as_image(to, x), to.constant_of({1, 1, 2, 2}, {4})},
                                             {{"mode", "nearest"}})};
                   },
                   9});
    add("GridSample", true, [](row_network& to, const std::string& x) {
        const std::string grid = to.add("Tanh", {reshaped(to, x, {0, 1, 2, 2})});
        return strings{to.add("GridSample", {as_image(to, x), grid})};
    });
    add("AffineGrid", true, [](row_network& to, const std::string& x) {
        const std::string size =
            to.add("Concat", {to.add("Shape", {x}, {{"end", one}}), to.integers({1, 2, 2})}, {{"axis", zero}});
        return strings{to.add(
            "AffineGrid",
            {reshaped(to,
                      to.add("Concat", {x, to.add("Slice", {x, to.integers({0}), to.integers({2}), to.integers({1})})},
                             {{"axis", one}}),
                      {0, 2, 3}),
             size})};
    });
}

void add_reductions(std::vector<row_recipe>& all) {
    const auto add = [&](const char* op, bool keeps, recipe_function write) {
        all.push_back({op, keeps, std::move(write)});
    };
    for (const char* const each : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                                   "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"}) {
        add(each, true,
            [=](row_network& to, const std::string& x) { return strings{to.add(each, {x, to.integers({1})})}; });
        add(each, false, [=](row_network& to, const std::string& x) {
            return strings{to.add("Sub", {x, to.add(each, {x, to.integers({0})})})};
        });
    }
    for (const char* const each : {"ArgMax", "ArgMin"}) {
        add(each, true,
            [=](row_network& to, const std::string& x) { return strings{to.add(each, {x}, {{"axis", one}})}; });
        add(each, false, [=](row_network& to, const std::string& x) {
            return strings{to.add("Add", {as_index(to, x), to.add(each, {x}, {{"axis", zero}})})};
        });
    }
    add("TopK", true, [](row_network& to, const std::string& x) {
        return to.node_of(2, "TopK", {x, to.integers({2})}, {{"axis", one}});
    });
    add("TopK", false, [](row_network& to, const std::string& x) {
        const strings found = to.node_of(2, "TopK", {x, to.integers({1})}, {{"axis", zero}});
        return strings{to.add("Sub", {x, found.front()})};
    });
    for (const char* const each : {"Softmax", "LogSoftmax", "Hardmax", "LpNormalization"})
        for (const bool keeps : {true, false})
            add(each, keeps, [=](row_network& to, const std::string& x) {
                return strings{to.add(each, {x}, {{"axis", keeps ? one : zero}})};
            });
    for (const char* const each : {"CumSum", "CumProd"})
        for (const bool keeps : {true, false})
            add(each, keeps, [=](row_network& to, const std::string& x) {
                return strings{to.add(each, {x, to.integer(keeps ? 1 : 0)})};
            });
    for (const char* const each : {"LayerNormalization", "RMSNormalization"}) {
        add(each, true, [=](row_network& to, const std::string& x) {
            return strings{to.add(each, {x, to.constant_of(some(4), {4})})};
        });
        add(each, false, [=](row_network& to, const std::string& x) {
            return strings{to.add(each, {x, to.constant_of(some(4), {4})}, {{"axis", zero}})};
        });
    }
    add("InstanceNormalization", true, [](row_network& to, const std::string& x) {
        return strings{
            to.add("InstanceNormalization", {as_image(to, x), to.constant_of({2}, {1}), to.constant_of({1}, {1})})};
    });
    add("GroupNormalization", true, [](row_network& to, const std::string& x) {
        return strings{to.add("GroupNormalization",
                              {reshaped(to, x, {0, 2, 2}), to.constant_of({2, 3}, {2}), to.constant_of({1, 2}, {2})},
                              {{"num_groups", one}})};
    });
    add("MeanVarianceNormalization", true, [](row_network& to, const std::string& x) {
        return strings{to.add("MeanVarianceNormalization", {as_image(to, x)}, {{"axes", ints{2, 3}}})};
    });
    add("MeanVarianceNormalization", false, [](row_network& to, const std::string& x) {
        return strings{to.add("MeanVarianceNormalization", {as_image(to, x)})};
    });
    const auto normalized = [](row_network& to, const std::string& x, std::size_t outputs, recipe_attributes with) {
        const std::string four = to.constant_of({1, 2, 3, 4}, {4});
        return strings{to.node_of(outputs, "BatchNormalization", {x, four, four, four, four}, std::move(with)).front()};
    };
    add("BatchNormalization", true, [=](row_network& to, const std::string& x) { return normalized(to, x, 1, {}); });
    add("BatchNormalization", false,
        [=](row_network& to, const std::string& x) { return normalized(to, x, 3, {{"training_mode", one}}); });
    add("LRN", true, [](row_network& to, const std::string& x) {
        return strings{to.add("LRN", {reshaped(to, x, {0, 4, 1, 1})}, {{"size", std::int64_t{3}}})};
    });
    add("LRN", false, [](row_network& to, const std::string& x) {
        return strings{to.add("LRN", {reshaped(to, to.add("Transpose", {x}), {4, -1, 1, 1})},
                              {{"size", std::int64_t{3}}, {"alpha", 1.f}})};
    });
    add("DFT", true, [](row_network& to, const std::string& x) {
        return strings{to.add("DFT", {reshaped(to, x, {0, 4, 1}), "", to.integer(1)})};
    });
    add("DFT", false, [](row_network& to, const std::string& x) {
        return strings{to.add("DFT", {reshaped(to, x, {0, 4, 1}), "", to.integer(0)})};
    });
    add("STFT", true, [](row_network& to, const std::string& x) {
        return strings{to.add("STFT", {reshaped(to, x, {0, 4, 1}), to.integer(2), "", to.integer(2)})};
    });
    const auto loss = [](row_network& to, const std::string& x, const char* op, const char* reduction) {
        return to.add(op, {x, reshaped(to, as_index(to, x), {-1})}, {{"reduction", reduction}});
    };
    for (const char* const each : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) {
        add(each, true, [=](row_network& to, const std::string& x) { return strings{loss(to, x, each, "none")}; });
        add(each, false, [=](row_network& to, const std::string& x) {
            return strings{to.add("Add", {x, loss(to, x, each, "mean")})};
        });
    }
}

void add_sequences(std::vector<row_recipe>& all) {
    const auto add = [&](const char* op, bool keeps, recipe_function write) {
        all.push_back({op, keeps, std::move(write)});
    };
    for (const auto& [op, gates] : {std::pair("RNN", 1U), std::pair("GRU", 3U), std::pair("LSTM", 4U)}) {
        const auto layer = [name = op, parts = gates](row_network& to, const std::string& x) {
            return to.node_of(2, name,
                              {x, to.constant_of(some(parts * 3 * 2), {1, parts * 3, 2}),
                               to.constant_of(some(parts * 9), {1, parts * 3, 3})},
                              {{"hidden_size", std::int64_t{3}}});
        };
        // [steps, rows, 2]
        add(op, true, [=](row_network& to, const std::string& x) {
            return layer(to, to.add("Transpose", {as_matrices(to, x)}, {{"perm", ints{1, 0, 2}}}));
        });
        add(op, false,
            [=](row_network& to, const std::string& x) { return strings{layer(to, as_matrices(to, x)).front()}; });
    }
    const auto heads = [](row_network& to, const std::string& x) { return reshaped(to, x, {0, 1, 2, 2}); };
    add("Attention", true, [=](row_network& to, const std::string& x) {
        return strings{to.add("Attention", {heads(to, x), heads(to, x), heads(to, x)})};
    });
    all.push_back({"ai.onnx.preview.FlexAttention", true, [=](row_network& to, const std::string& x) {
                       return strings{
                           to.add("ai.onnx.preview.FlexAttention", {heads(to, x), heads(to, x), heads(to, x)})};
                   }});
    add("LinearAttention", true, [](row_network& to, const std::string& x) {
        const std::string its = as_matrices(to, to.add("Tanh", {x}));
        return to.node_of(2, "LinearAttention", {its, its, its},
                          {{"q_num_heads", one}, {"kv_num_heads", one}, {"update_rule", "linear"}});
    });
    add("RotaryEmbedding", true, [=](row_network& to, const std::string& x) {
        const std::string places = to.add(
            "Expand", {as_index(to, x),
                       to.add("Concat", {to.add("Shape", {x}, {{"end", one}}), to.integers({2})}, {{"axis", zero}})});
        return strings{to.add("RotaryEmbedding", {heads(to, x), to.constant_of(some(4), {4, 1}),
                                                  to.constant_of(some(4), {4, 1}), places})};
    });
}

void add_learning(std::vector<row_recipe>& all) {
    const auto keep = [&](const char* op, recipe_attributes with, std::size_t outputs = 1) {
        const std::string full = std::string("ai.onnx.ml.") + op;
        all.push_back(
            {full, true, [=](row_network& to, const std::string& x) { return to.node_of(outputs, full, {x}, with); }});
    };
    const std::vector<float> four = some(4);
    keep("Scaler", {{"offset", four}, {"scale", four}});
    keep("Normalizer", {{"norm", "L2"}});
    keep("Binarizer", {{"threshold", 0.5f}});
    keep("Imputer", {{"imputed_value_floats", four}, {"replaced_value_float", 1.f}});
    keep("ZipMap", {{"classlabels_int64s", ints{0, 1, 2, 3}}});
    keep("LinearRegressor", {{"coefficients", some(8)}, {"targets", std::int64_t{2}}});
    keep("LinearClassifier", {{"coefficients", some(12)}, {"intercepts", some(3)}, {"classlabels_ints", ints{0, 1, 2}}},
         2);
    keep("SVMRegressor", {{"coefficients", some(2)},
                          {"kernel_type", "LINEAR"},
                          {"support_vectors", some(8)},
                          {"n_supports", std::int64_t{2}},
                          {"rho", std::vector<float>{0.5f}}});
    keep("SVMClassifier",
         {{"coefficients", some(8)},
          {"kernel_type", "LINEAR"},
          {"rho", std::vector<float>{0.5f}},
          {"classlabels_ints", ints{0, 1}}},
         2);
    const std::vector<std::string> modes{"BRANCH_LEQ", "LEAF", "LEAF"};
    const recipe_attributes tree{{"nodes_treeids", ints{0, 0, 0}},
                                 {"nodes_nodeids", ints{0, 1, 2}},
                                 {"nodes_featureids", ints{1, 0, 0}},
                                 {"nodes_modes", modes},
                                 {"nodes_values", std::vector<float>{0.5f, 0, 0}},
                                 {"nodes_truenodeids", ints{1, 0, 0}},
                                 {"nodes_falsenodeids", ints{2, 0, 0}}};
    recipe_attributes regressor = tree, classifier = tree;
    regressor.insert({{"n_targets", one},
                      {"target_ids", ints{0, 0}},
                      {"target_nodeids", ints{1, 2}},
                      {"target_treeids", ints{0, 0}},
                      {"target_weights", std::vector<float>{3, -2}}});
    classifier.insert({{"class_ids", ints{0, 1}},
                       {"class_nodeids", ints{1, 2}},
                       {"class_treeids", ints{0, 0}},
                       {"class_weights", std::vector<float>{1, 1}},
                       {"classlabels_int64s", ints{0, 1}}});
    keep("TreeEnsembleRegressor", regressor);
    keep("TreeEnsembleClassifier", classifier, 2);
    const recipe_attributes apart{{"n_targets", one},
                                  {"nodes_featureids", ints{1}},
                                  {"nodes_falseleafs", ints{1}},
                                  {"nodes_falsenodeids", ints{1}},
                                  {"nodes_modes", test_support::tensor_of(std::vector<std::uint8_t>{0}, {1})},
                                  {"nodes_splits", test_support::tensor_of(std::vector<float>{0.5f}, {1})},
                                  {"nodes_trueleafs", ints{1}},
                                  {"nodes_truenodeids", ints{0}},
                                  {"leaf_targetids", ints{0, 0}},
                                  {"leaf_weights", test_support::tensor_of(std::vector<float>{3, -2}, {2})},
                                  {"tree_roots", ints{0}}};
    keep("TreeEnsemble", apart);
    all.push_back({"sluice.TreeEnsemble", true, [=](row_network& to, const std::string& x) {
                       return strings{to.add("sluice.TreeEnsemble", {x}, apart)};
                   }});
    const auto of_index = [&](const char* op, recipe_attributes with) {
        const std::string full = std::string("ai.onnx.ml.") + op;
        all.push_back({full, true, [=](row_network& to, const std::string& x) {
                           return strings{to.add(full, {as_index(to, x)}, with)};
                       }});
    };
    of_index("LabelEncoder", {{"keys_int64s", ints{0, 1, 2, 3}}, {"values_int64s", ints{7, 5, 3, 1}}});
    of_index("OneHotEncoder", {{"cats_int64s", ints{0, 1, 2, 3}}});
    all.push_back({"ai.onnx.ml.FeatureVectorizer", true, [](row_network& to, const std::string& x) {
                       return strings{
                           to.add("ai.onnx.ml.FeatureVectorizer", {x, x}, {{"inputdimensions", ints{4, 4}}})};
                   }});
    all.push_back({"ai.onnx.ml.ArrayFeatureExtractor", true, [](row_network& to, const std::string& x) {
                       return strings{to.add("ai.onnx.ml.ArrayFeatureExtractor", {x, to.integers({2, 1})})};
                   }});
    // The label of each row, as scikit-learn's classifiers are exported.
    all.push_back({"ai.onnx.ml.ArrayFeatureExtractor", true, [](row_network& to, const std::string& x) {
                       const std::string labels = to.constant_of({5, 6, 7, 8}, {4});
                       return strings{
                           reshaped(to, to.add("ai.onnx.ml.ArrayFeatureExtractor", {labels, as_index(to, x)}), {-1})};
                   }});
    all.push_back({"TfIdfVectorizer", true, [](row_network& to, const std::string& x) {
                       return strings{to.add("TfIdfVectorizer", {as_index(to, x)},
                                             {{"mode", "TF"},
                                              {"min_gram_length", one},
                                              {"max_gram_length", one},
                                              {"max_skip_count", zero},
                                              {"ngram_counts", ints{0}},
                                              {"ngram_indexes", ints{0, 1, 2, 3}},
                                              {"pool_int64s", ints{0, 1, 2, 3}}})};
                   }});
}

std::shared_ptr<const graph> largest_taken_away() {
    graph made;
    made.inputs = {{"round", io::dtype::i64, {}}, {"goes_on", io::dtype::boolean, {}}, {"s", io::dtype::f32, {}}};
    made.outputs = {{"still", io::dtype::boolean, {}}, {"t", io::dtype::f32, {}}};
    made.constants.emplace("first", test_support::tensor_of(ints{0}, {1}));
    made.nodes = {test_support::make_node("Identity", {"goes_on"}, {"still"}),
                  test_support::make_node("ReduceMax", {"s", "first"}, {"m"}),
                  test_support::make_node("Sub", {"s", "m"}, {"t"})};
    return std::make_shared<const graph>(std::move(made));
}

// What is added up so far: each row has those before it.
std::shared_ptr<const graph> added_up() {
    graph made;
    made.inputs = {{"sum", io::dtype::f32, {}}, {"row", io::dtype::f32, {}}};
    made.outputs = {{"next", io::dtype::f32, {}}, {"so_far", io::dtype::f32, {}}};
    made.nodes = {test_support::make_node("Add", {"sum", "row"}, {"next"}),
                  test_support::make_node("Identity", {"next"}, {"so_far"})};
    return std::make_shared<const graph>(std::move(made));
}

// The distances of a row to the rows of a table, as neighbours are exported: the table is the state.
std::shared_ptr<const graph> distances() {
    graph made;
    made.inputs = {{"table", io::dtype::f32, {}}, {"row", io::dtype::f32, {}}};
    made.outputs = {{"same", io::dtype::f32, {}}, {"distance", io::dtype::f32, {}}};
    made.constants.emplace("last", test_support::tensor_of(ints{1}, {1}));
    node sum = test_support::make_node("ReduceSumSquare", {"difference", "last"}, {"distance"});
    sum.attributes.emplace("keepdims", zero);
    made.nodes = {test_support::make_node("Sub", {"table", "row"}, {"difference"}), std::move(sum),
                  test_support::make_node("Identity", {"table"}, {"same"})};
    return std::make_shared<const graph>(std::move(made));
}

void add_mixing(std::vector<row_recipe>& all) {
    const auto add = [&](const char* op, recipe_function write) { all.push_back({op, false, std::move(write)}); };
    add("DynamicQuantizeLinear", [](row_network& to, const std::string& x) {
        return strings{to.node_of(3, "DynamicQuantizeLinear", {x}).front()};
    });
    add("com.microsoft.DynamicQuantizeLSTM", [](row_network& to, const std::string& x) {
        constexpr std::int64_t i8 = 3;  // as ONNX numbers it
        const auto bytes = [&](const std::string& from) { return to.add("Cast", {from}, {{"to", i8}}); };
        const std::string scale = to.constant_of({0.01f}, {1}), none = bytes(to.constant_of({0}, {1})),
                          hundred = to.constant_of({100}, {1}),
                          w = bytes(to.add("Mul", {to.constant_of(some(24), {1, 2, 12}), hundred})),
                          r = bytes(to.add("Mul", {to.constant_of(some(36), {1, 3, 12}), hundred}));
        const std::string steps = to.add("Transpose", {as_matrices(to, x)}, {{"perm", ints{1, 0, 2}}});
        return strings{
            to.add("com.microsoft.DynamicQuantizeLSTM", {steps, w, r, "", "", "", "", "", scale, none, scale, none})};
    });
    add("NonZero", [](row_network& to, const std::string& x) { return strings{to.add("NonZero", {x})}; });
    add("Unique", [](row_network& to, const std::string& x) {
        return strings{to.add("Unique", {reshaped(to, as_index(to, x), {-1})})};
    });
    add("Compress", [](row_network& to, const std::string& x) {
        const std::string chosen = reshaped(to, as_truth(to, to.add("ReduceMax", {x, to.integers({1})})), {-1});
        return strings{to.add("Compress", {x, chosen}, {{"axis", zero}})};
    });
    add("NonMaxSuppression", [](row_network& to, const std::string& x) {
        return strings{to.add("NonMaxSuppression",
                              {reshaped(to, x, {0, 1, 4}),
                               reshaped(to, to.add("ReduceMax", {x, to.integers({1})}), {0, 1, 1}), to.integer(3)})};
    });
    add("EyeLike", [](row_network& to, const std::string& x) { return strings{to.add("EyeLike", {x})}; });
    const auto of_all = [](row_network& to, const std::string& x, const std::string& what, ints shape) {
        const std::string size =
            to.add("Concat", {to.add("Shape", {x}, {{"end", one}}), to.integers(std::move(shape))}, {{"axis", zero}});
        return to.add("Expand", {what, size});
    };
    add("MaxUnpool", [=](row_network& to, const std::string& x) {
        const std::string pooled = to.add("ReduceMax", {as_image(to, x), to.integers({2, 3})});
        return strings{to.add("MaxUnpool", {pooled, of_all(to, x, to.integer(2), {1, 1, 1})},
                              {{"kernel_shape", ints{2, 2}}, {"strides", ints{2, 2}}})};
    });
    add("MaxRoiPool", [=](row_network& to, const std::string& x) {
        const std::string regions = of_all(to, x, to.constant_of({0, 0, 0, 1, 1}, {1, 5}), {5});
        return strings{to.add("MaxRoiPool", {as_image(to, x), regions}, {{"pooled_shape", ints{1, 1}}})};
    });
    add("RoiAlign", [=](row_network& to, const std::string& x) {
        const std::string regions = of_all(to, x, to.constant_of({0, 0, 1, 1}, {1, 4}), {4});
        const std::string images = to.add("Expand", {to.integer(0), to.add("Shape", {x}, {{"end", one}})});
        return strings{to.add("RoiAlign", {as_image(to, x), regions, images})};
    });
    for (const char* const each : {"HannWindow", "HammingWindow", "BlackmanWindow"})
        add(each, [=](row_network& to, const std::string& x) { return strings{to.add(each, {row_count_of(to, x)})}; });
    add("MelWeightMatrix", [](row_network& to, const std::string& x) {
        return strings{to.add("MelWeightMatrix", {row_count_of(to, x), to.integer(64), to.integer(8000),
                                                  to.constant_of({0}, {}), to.constant_of({4000}, {})})};
    });
    add("Loop", [](row_network& to, const std::string& x) {
        return strings{to.add("Loop", {to.integer(1), "", x}, {{"body", largest_taken_away()}})};
    });
    // The other way round: the rounds are the table's rows.
    all.push_back({"Scan", true, [](row_network& to, const std::string& x) {
                       return strings{to.node_of(2, "Scan", {x, to.constant_of(some(12), {3, 4})},
                                                 {{"body", distances()}, {"num_scan_inputs", one}})
                                          .back()};
                   }});
    all.push_back({"Scan", true, [](row_network& to, const std::string& x) {
                       return strings{to.node_of(2, "Scan", {to.constant_of(some(12), {3, 4}), x},
                                                 {{"body", distances()}, {"num_scan_inputs", one}})
                                          .back()};
                   }});
    add("Scan", [](row_network& to, const std::string& x) {
        return strings{to.node_of(2, "Scan", {to.constant_of({0, 0, 0, 0}, {4}), x},
                                  {{"body", added_up()}, {"num_scan_inputs", one}})
                           .back()};
    });
}

}  // namespace

row_network::row_network(std::int64_t opset) {
    made_.path = "rows.onnx";
    made_.opsets = {{"", opset},          {"ai.onnx.ml", 5}, {"ai.onnx.preview", 1}, {"ai.onnx.preview.training", 1},
                    {"com.microsoft", 1}, {"sluice", 1}};
    made_.body.inputs = {test_support::f32("x", {test_support::named("rows"), test_support::of(4)})};
}

std::string row_network::next() { return "v" + std::to_string(names_++); }

std::string row_network::constant_of(const std::vector<float>& values, std::vector<std::size_t> shape) {
    std::string name = next();
    made_.body.constants.emplace(name, test_support::tensor_of(values, std::move(shape)));
    return name;
}
std::string row_network::integers(const ints& values) {
    std::string name = next();
    const std::size_t count = values.size();
    made_.body.constants.emplace(name, test_support::tensor_of(values, {count}));
    return name;
}
std::string row_network::integer(std::int64_t value) {
    std::string name = next();
    made_.body.constants.emplace(name, test_support::tensor_of(ints{value}, {}));
    return name;
}

strings row_network::node_of(std::size_t outputs, const std::string& op, strings inputs, recipe_attributes attributes) {
    const std::size_t dot = op.rfind('.');
    node made = test_support::make_node(dot == std::string::npos ? op : op.substr(dot + 1), std::move(inputs), {});
    if (dot != std::string::npos) made.domain = op.substr(0, dot);
    made.attributes = std::move(attributes);
    for (std::size_t o = 0; o < outputs; ++o) made.outputs.push_back(next());
    made_.body.nodes.push_back(made);
    return made.outputs;
}

model row_network::finished() const {
    model made = made_;
    for (const std::string& each : outputs_) made.body.outputs.push_back({each, io::dtype::f32, {}});
    return made;
}

const std::vector<row_recipe>& row_recipes() {
    static const std::vector<row_recipe> all = [] {
        std::vector<row_recipe> made;
        add_elementwise(made);
        add_shapes(made);
        add_movement(made);
        add_indexing(made);
        add_products(made);
        add_images(made);
        add_reductions(made);
        add_sequences(made);
        add_learning(made);
        add_mixing(made);
        return made;
    }();
    return all;
}

}  // namespace sluice::nn::testing
