#include "model_broadcast.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::app {

nlohmann::json outline_of(const nn::mlp_model& model) {
    auto layers = nlohmann::json::array();
    for (const nn::dense_layer& each : model.layers) {
        layers.push_back({{"name", each.name},
                          {"in_features", each.in_features},
                          {"out_features", each.out_features},
                          {"bias", !each.bias.empty()},
                          {"after", std::string(to_string(each.after))}});
    }
    return layers;
}

nn::mlp_model model_from(const nlohmann::json& outline) {
    nn::mlp_model model;
    for (const nlohmann::json& each : outline) {
        nn::dense_layer layer;
        layer.name = each["name"];
        layer.in_features = each["in_features"];
        layer.out_features = each["out_features"];
        layer.after = activation_from_string(each["after"].get<std::string>()).value();
        layer.weight.resize(layer.in_features * layer.out_features);
        if (each["bias"]) layer.bias.resize(layer.out_features);
        model.layers.push_back(std::move(layer));
    }
    return model;
}

void broadcast_weights(rank_job& job, nn::mlp_model& model) {
    for (nn::dense_layer& each : model.layers) {
        job.broadcast(std::as_writable_bytes(std::span(each.weight)));
        job.broadcast(std::as_writable_bytes(std::span(each.bias)));
    }
}

}  // namespace sluice::app
