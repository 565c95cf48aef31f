// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/config_message.hpp"

#include <cstdint>
#include <string>

namespace sluice::serve {
namespace {

// The datatypes of inference.proto are all that a model here may have.
inference::DataType data_type_of(const std::string& name) {
    inference::DataType found = inference::TYPE_INVALID;
    inference::DataType_Parse(name, &found);
    return found;
}

template <typename Tensor>
void write(Tensor& to, const triton_tensor& from) {
    to.set_name(from.name);
    to.set_data_type(data_type_of(from.data_type));
    for (const std::int64_t each : from.dims) to.add_dims(each);
}

void write(inference::ModelVersionPolicy& to, const model_config& from) {
    if (from.versions)
        for (const std::size_t each : *from.versions)
            to.mutable_specific()->add_versions(static_cast<std::int64_t>(each));
    else if (from.all_versions)
        to.mutable_all();
    else
        to.mutable_latest()->set_num_versions(1);
}

void write(inference::ModelQueuePolicy& to, const queue_policy& from) {
    using policy = inference::ModelQueuePolicy;
    to.set_timeout_action(from.timeout_action == timeout_action::delay ? policy::DELAY : policy::REJECT);
    to.set_default_timeout_microseconds(from.timeout_us);
    to.set_allow_timeout_override(from.allow_timeout_override);
    to.set_max_queue_size(static_cast<std::uint32_t>(from.queue));
}

void write(inference::ModelDynamicBatching& to, const model_config& from) {
    for (const std::size_t each : from.preferred_batch_size)
        to.add_preferred_batch_size(static_cast<std::int32_t>(each));
    to.set_max_queue_delay_microseconds(from.max_delay_us);
    to.set_priority_levels(from.priority_levels);
    to.set_default_priority_level(from.default_priority);
    write(*to.mutable_default_queue_policy(), from.default_queue_policy);
    for (const auto& [priority, policy] : from.priority_queue_policy)
        write((*to.mutable_priority_queue_policy())[priority], policy);
}

}  // namespace

void write_config(inference::ModelConfig& to, const triton_config& from) {
    to.set_name(from.name);
    to.set_platform(from.platform);
    to.set_backend(from.backend);
    write(*to.mutable_version_policy(), from.its);
    to.set_max_batch_size(static_cast<std::int32_t>(from.max_batch_size));
    for (const triton_tensor& each : from.inputs) write(*to.add_input(), each);
    for (const triton_tensor& each : from.outputs) write(*to.add_output(), each);
    auto& group = *to.add_instance_group();
    group.set_name(from.instance_group);
    group.set_count(static_cast<std::int32_t>(from.its.instances));
    using kind = inference::ModelInstanceGroup;
    group.set_kind(from.instance_kind == "KIND_GPU" ? kind::KIND_GPU : kind::KIND_CPU);
    if (from.has_dynamic_batching()) write(*to.mutable_dynamic_batching(), from.its);
    to.mutable_model_transaction_policy()->set_decoupled(false);
}

}  // namespace sluice::serve
