// SPDX-License-Identifier: Apache-2.0
// Makes small ONNX models, field by field, right and wrong ones.
#pragma once

#include <onnx.pb.h>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/nn/onnx.hpp"

namespace sluice::nn::testing {

class onnx_maker {
public:
    // One input "x" [batch, `features`], one output "y" [batch, ?].
    explicit onnx_maker(std::int64_t features = 4) {
        file.set_ir_version(8);
        file.add_opset_import()->set_version(17);
        file.mutable_graph()->set_name("made");
        add_input("x", {-1, features});
        set_tensor(*file.mutable_graph()->add_output(), "y", {-1, -1});
    }

    onnx::GraphProto& body() { return *file.mutable_graph(); }

    void add_input(const std::string& name, const std::vector<std::int64_t>& shape) {
        set_tensor(*body().add_input(), name, shape);
    }
    // An f32 constant, in raw_data.
    onnx::TensorProto& add_constant(const std::string& name, const std::vector<std::int64_t>& shape,
                                    const std::vector<float>& values) {
        onnx::TensorProto& made = *body().add_initializer();
        made.set_name(name);
        for (const std::int64_t each : shape) made.add_dims(each);
        made.set_data_type(1);
        made.set_raw_data(values.data(), values.size() * sizeof(float));
        return made;
    }
    onnx::NodeProto& add_node(const std::string& op, const std::vector<std::string>& inputs,
                              const std::string& output) {
        onnx::NodeProto& made = *body().add_node();
        made.set_op_type(op);
        made.set_name("n" + std::to_string(body().node_size() - 1));
        for (const std::string& each : inputs) made.add_input(each);
        made.add_output(output);
        return made;
    }
    static void set(onnx::NodeProto& node, const std::string& name, std::int64_t value) {
        onnx::AttributeProto& made = add(node, name, 2);
        made.set_i(value);
    }
    static void set(onnx::NodeProto& node, const std::string& name, float value) {
        onnx::AttributeProto& made = add(node, name, 1);
        made.set_f(value);
    }
    static void set(onnx::NodeProto& node, const std::string& name, const std::string& value) {
        onnx::AttributeProto& made = add(node, name, 3);
        made.set_s(value);
    }

    std::string bytes() const { return file.SerializeAsString(); }
    model read(const std::filesystem::path& path = "made.onnx", data_links links = data_links::stay_in_folder) const {
        const std::string all = bytes();
        return read_onnx(std::as_bytes(std::span(all)), path, {}, links);
    }

    onnx::ModelProto file;

private:
    static onnx::AttributeProto& add(onnx::NodeProto& node, const std::string& name, std::int32_t type) {
        onnx::AttributeProto& made = *node.add_attribute();
        made.set_name(name);
        made.set_type(type);
        return made;
    }
    // -1: a length that is called "n".
    static void set_tensor(onnx::ValueInfoProto& value, const std::string& name,
                           const std::vector<std::int64_t>& shape) {
        value.set_name(name);
        onnx::TypeProto::Tensor& tensor = *value.mutable_type()->mutable_tensor_type();
        tensor.set_elem_type(1);
        for (const std::int64_t each : shape) {
            onnx::TensorShapeProto::Dimension& made = *tensor.mutable_shape()->add_dim();
            if (each < 0) {
                made.set_dim_param("n");
            } else {
                made.set_dim_value(each);
            }
        }
    }
};

}  // namespace sluice::nn::testing
