// SPDX-License-Identifier: Apache-2.0
#include "model_broadcast.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "sluice/devices/process_group.hpp"
#include "sluice/op/any_operation.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer.hpp"

namespace sluice::app {
namespace {

using namespace std::chrono_literals;

std::string to_hex(const process_group::invitation& bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const std::byte each : bytes) {
        text += digits[std::to_integer<std::size_t>(each >> 4)];
        text += digits[std::to_integer<std::size_t>(each & std::byte{15})];
    }
    return text;
}

process_group::invitation from_hex(const std::string& text) {
    process_group::invitation bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
    return bytes;
}

// To a group of all ranks' GPUs; empty, unless each has one of its own. Blocks; every rank calls it.
std::string invite_gpus(rank_job& job, device& mine) {
    const std::string hardware = job.size() > 1 ? process_group::hardware(mine) : std::string();
    std::vector<std::string> all = job.gather(hardware.empty() ? hardware : job.host_of(job.rank()) + ' ' + hardware);
    std::string invitation;
    if (job.rank() == 0) {
        std::ranges::sort(all);
        const bool has_each_its_own = !all.front().empty() && std::ranges::adjacent_find(all) == all.end();
        if (has_each_its_own) invitation = to_hex(process_group::invite());
    }
    return job.share_text(std::move(invitation));
}

// The numbers come on a thread of their own, while this one looks after the other ranks. NCCL itself waits for ever.
class nccl_delivery {
public:
    nccl_delivery(rank_job& job, nn::mlp_model model, const process_group::invitation& to, device& mine,
                  scheduling_policy& pool)
        : job_(job),
          model_(std::move(model)),
          pool_(pool),
          all_(mine, to, {.rank = static_cast<std::size_t>(job.rank()), .size = static_cast<std::size_t>(job.size())}) {
    }

    // Blocks until all ranks have it.
    nn::plan bring() {
        std::future<nn::plan> network;
        try {
            wait_until([&] { return all_.is_complete(); });
            network = std::async(std::launch::async, [&] { return bring_all(); });
            wait_until([&] { return network.wait_for(0s) == std::future_status::ready; });
            nn::plan made = network.get();
            job_.agree();  // others may still be fetching it from here
            return made;
        } catch (const error& own) {
            give_up_after([&] { job_.fail_first(own); });
            throw;
        } catch (...) {
            all_.abandon();
            throw;
        }
    }

private:
    using clock = std::chrono::steady_clock;

    // So that the other thread ends, whatever happens.
    template <class Function>
    void give_up_after(Function last_words) {
        try {
            last_words();
        } catch (...) {
            all_.abandon();
            throw;
        }
        all_.abandon();
    }

    // As long as there is some progress.
    void wait_until(const std::function<bool()>& condition) {
        std::size_t seen = arrived_;
        clock::time_point moved = clock::now();
        job_.wait_until([&] {
            if (condition()) return true;
            if (seen != arrived_) {
                seen = arrived_;
                moved = clock::now();
            }
            if (clock::now() - moved <= job_.longest_silence()) return false;
            const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(job_.longest_silence()).count();
            throw error(errc::timed_out,
                        "NCCL has brought nothing of the network for " + std::to_string(seconds) +
                            " s (--rank-timeout); NCCL_DEBUG=INFO makes it report more",
                        {"--distributed", all_.owner().name()});
        });
    }

    nn::plan bring_all() {
        std::vector<nn::plan_layer> layers;
        for (nn::dense_layer& each : model_.layers) {
            auto weight = bring_one(std::move(each.weight), {each.out_features, each.in_features});
            std::optional<shared_tensor<float>> bias;
            if (!each.bias.empty()) bias = bring_one(std::move(each.bias), {each.out_features});
            layers.emplace_back(std::move(weight), std::move(bias), each.after);
        }
        return nn::plan(std::move(layers));
    }

    shared_tensor<float> bring_one(std::vector<float> values, const shape& of) {
        any_operation<tensor<float>> here = uninitialized<float>(of);
        if (all_.rank() == 0) here = upload(std::move(values), of);
        auto there = std::move(here).and_then([&](tensor<float> x) { return broadcast(all_, 0, std::move(x)); });
        shared_tensor<float> made(sync(std::move(there), pool_));
        ++arrived_;
        return made;
    }

    rank_job& job_;
    nn::mlp_model model_;
    scheduling_policy& pool_;
    process_group all_;
    std::atomic<std::size_t> arrived_ = 0;
};

}  // namespace

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
        if (each["bias"]) layer.bias.resize(layer.out_features);
        model.layers.push_back(std::move(layer));
    }
    return model;
}

nn::plan bring_network(rank_job& job, nn::mlp_model model, device& mine, scheduling_policy& pool) {
    const std::string invitation = invite_gpus(job, mine);  // after it, all ranks have reached this line
    if (!invitation.empty()) return nccl_delivery(job, std::move(model), from_hex(invitation), mine, pool).bring();
    for (nn::dense_layer& each : model.layers) {
        each.weight.resize(each.in_features * each.out_features);
        job.broadcast(std::as_writable_bytes(std::span(each.weight)));
        job.broadcast(std::as_writable_bytes(std::span(each.bias)));
    }
    return sync(nn::make_plan(std::move(model)), pool);
}

}  // namespace sluice::app
