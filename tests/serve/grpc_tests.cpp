// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "serve/grpc/config_message.hpp"
#include "serve/grpc/infer_answer.hpp"
#include "serve/grpc/small_message.hpp"
#include "serve/support/given_back.hpp"
#include "serve/support/grpc_server.hpp"
#include "serve/support/known_clients.hpp"
#include "sluice/base/error.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve::grpc_tests {
namespace {

using namespace std::chrono_literals;
using namespace inference;
using testing::grpc_server;
using ::testing::HasSubstr;
using testing::row;

void expect_refused(const grpc::Status& got, grpc::StatusCode code, const std::string& why) {
    EXPECT_EQ(got.error_code(), code) << got.error_message();
    EXPECT_THAT(got.error_message(), HasSubstr(why));
}

TEST(grpc, answers_typed_and_raw_contents) {
    const grpc_server server;
    for (const bool is_raw : {false, true}) {
        ModelInferResponse got;
        const grpc::Status status = server.infer(row(3, is_raw), got);
        ASSERT_TRUE(status.ok()) << status.error_message();
        EXPECT_EQ(got.model_name(), "m");
        EXPECT_EQ(got.model_version(), "1");
        EXPECT_EQ(got.id(), "seven");
        ASSERT_EQ(got.outputs_size(), 1);
        EXPECT_EQ(got.outputs(0).name(), "y");
        EXPECT_EQ(got.outputs(0).datatype(), "FP32");
        EXPECT_THAT(got.outputs(0).shape(), ::testing::ElementsAre(1, 2));
        ASSERT_EQ(got.raw_output_contents_size(), 1);
        float y[2] = {};
        ASSERT_EQ(got.raw_output_contents(0).size(), sizeof(y));
        std::memcpy(y, got.raw_output_contents(0).data(), sizeof(y));
        EXPECT_EQ(y[0], 6);
        EXPECT_EQ(y[1], 6);
    }
}

TEST(grpc, says_what_the_server_and_its_models_are) {
    const grpc_server server({.version = "1.2"});
    {
        grpc::ClientContext context;
        ServerLiveResponse got;
        ASSERT_TRUE(server.stub->ServerLive(&context, {}, &got).ok());
        EXPECT_TRUE(got.live());
    }
    {
        grpc::ClientContext context;
        ServerMetadataResponse got;
        ASSERT_TRUE(server.stub->ServerMetadata(&context, {}, &got).ok());
        EXPECT_EQ(got.name(), "sluice");
        EXPECT_EQ(got.version(), "1.2");
    }
    for (const std::string name : {"m", "other"}) {
        grpc::ClientContext context;
        ModelReadyRequest request;
        request.set_name(name);
        ModelReadyResponse got;
        ASSERT_TRUE(server.stub->ModelReady(&context, request, &got).ok());
        EXPECT_EQ(got.ready(), name == "m");
    }
    grpc::ClientContext context;
    ModelMetadataRequest request;
    request.set_name("m");
    ModelMetadataResponse got;
    ASSERT_TRUE(server.stub->ModelMetadata(&context, request, &got).ok());
    EXPECT_EQ(got.platform(), "fake");
    EXPECT_EQ(got.properties().at("rows"), "proven");
    EXPECT_THAT(got.versions(), ::testing::ElementsAre("1"));
    ASSERT_EQ(got.inputs_size(), 1);
    EXPECT_EQ(got.inputs(0).name(), "x");
    EXPECT_THAT(got.inputs(0).shape(), ::testing::ElementsAre(-1, 2));
}

ModelConfig config_of(const grpc_server& server, const std::string& version = {}) {
    grpc::ClientContext context;
    ModelConfigRequest request;
    request.set_name("m");
    request.set_version(version);
    ModelConfigResponse got;
    const grpc::Status status = server.stub->ModelConfig(&context, request, &got);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return got.config();
}

TEST(grpc, says_the_configuration_of_a_model_as_triton_does) {
    const grpc_server joined({}, R"({"max_batch": 8, "preferred_batch_size": [4, 8], "max_delay_us": 50, "instances": 2,
        "priority_levels": 3, "default_priority": 2, "default_queue_policy": {"timeout_us": 7},
        "priority_queue_policy": {"3": {"queue": 5, "timeout_us": 9, "timeout_action": "delay",
                                        "allow_timeout_override": false}}})");
    const ModelConfig its = config_of(joined);
    EXPECT_EQ(its.name(), "m");
    EXPECT_EQ(its.platform(), "fake");
    EXPECT_EQ(its.backend(), "sluice");
    EXPECT_EQ(its.version_policy().latest().num_versions(), 1U);
    EXPECT_EQ(its.max_batch_size(), 8);
    ASSERT_EQ(its.input_size(), 1);
    EXPECT_EQ(its.input(0).name(), "x");
    EXPECT_EQ(its.input(0).data_type(), TYPE_FP32);
    EXPECT_THAT(its.input(0).dims(), ::testing::ElementsAre(2));
    ASSERT_EQ(its.output_size(), 1);
    EXPECT_EQ(its.output(0).name(), "y");
    EXPECT_EQ(its.output(0).data_type(), TYPE_FP32);
    EXPECT_THAT(its.output(0).dims(), ::testing::ElementsAre(2));
    ASSERT_EQ(its.instance_group_size(), 1);
    EXPECT_EQ(its.instance_group(0).count(), 2);
    EXPECT_EQ(its.instance_group(0).kind(), ModelInstanceGroup::KIND_CPU);
    EXPECT_TRUE(its.has_model_transaction_policy());
    const ModelDynamicBatching& batching = its.dynamic_batching();
    EXPECT_THAT(batching.preferred_batch_size(), ::testing::ElementsAre(4, 8));
    EXPECT_EQ(batching.max_queue_delay_microseconds(), 50U);
    EXPECT_EQ(batching.priority_levels(), 3U);
    EXPECT_EQ(batching.default_priority_level(), 2U);
    EXPECT_EQ(batching.default_queue_policy().timeout_action(), ModelQueuePolicy::REJECT);
    EXPECT_EQ(batching.default_queue_policy().default_timeout_microseconds(), 7U);
    EXPECT_TRUE(batching.default_queue_policy().allow_timeout_override());
    ASSERT_EQ(batching.priority_queue_policy_size(), 1);
    const ModelQueuePolicy& last = batching.priority_queue_policy().at(3);
    EXPECT_EQ(last.timeout_action(), ModelQueuePolicy::DELAY);
    EXPECT_EQ(last.max_queue_size(), 5U);
    EXPECT_FALSE(last.allow_timeout_override());
}

TEST(grpc, the_configuration_of_a_model_without_batches_has_all_dimensions) {
    const grpc_server alone({}, R"({"max_batch": 1, "versions": [1]})");
    const ModelConfig its = config_of(alone, "1");
    EXPECT_EQ(its.max_batch_size(), 0);
    EXPECT_FALSE(its.has_dynamic_batching());
    EXPECT_THAT(its.input(0).dims(), ::testing::ElementsAre(-1, 2));
    EXPECT_THAT(its.version_policy().specific().versions(), ::testing::ElementsAre(1));
    EXPECT_TRUE(config_of(grpc_server({}, R"({"versions": "all"})")).version_policy().has_all());
    grpc::ClientContext context;
    ModelConfigRequest other;
    other.set_name("other");
    ModelConfigResponse ignored;
    expect_refused(alone.stub->ModelConfig(&context, other, &ignored), grpc::StatusCode::NOT_FOUND,
                   "there is no model 'other'");
}

TEST(grpc, configurations_name_each_datatype) {
    for (const io::dtype type :
         {io::dtype::f16, io::dtype::bf16, io::dtype::f32, io::dtype::f64, io::dtype::i8, io::dtype::u8, io::dtype::i16,
          io::dtype::u16, io::dtype::i32, io::dtype::u32, io::dtype::i64, io::dtype::u64, io::dtype::boolean}) {
        triton_config config;
        config.inputs.push_back({"x", "TYPE_" + std::string(datatype_of(type)), {}});
        ModelConfig made;
        write_config(made, config);
        EXPECT_EQ(DataType_Name(made.input(0).data_type()), config.inputs[0].data_type);
    }
}

// perf_analyzer asks for it outside of streams too.
TEST(grpc, a_single_call_may_ask_for_an_empty_final_response_and_has_one_answer) {
    const grpc_server server;
    ModelInferRequest request = row(1);
    (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
    ModelInferResponse got;
    ASSERT_TRUE(server.infer(request, got).ok());
    EXPECT_EQ(got.outputs_size(), 1);
    EXPECT_TRUE(got.parameters().empty());
    (*request.mutable_parameters())["triton_enable_empty_final_response"].set_int64_param(1);
    expect_refused(server.infer(request), grpc::StatusCode::INVALID_ARGUMENT, "triton_enable_empty_final_response");
}

// Clients and balancers repeat a call that is UNAVAILABLE, and none that was CANCELLED.
TEST(grpc, calls_that_arrive_at_the_end_are_answered_or_unavailable) {
    for (int round = 0; round < 10; ++round) {
        const grpc_server server;
        std::atomic<int> answered{0}, others{0};
        std::vector<std::jthread> clients;
        for (int i = 0; i < 4; ++i) {
            clients.emplace_back([&, stub = server.client(grpc::InsecureChannelCredentials())] {
                grpc::Status status;
                do {
                    grpc::ClientContext context;
                    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
                    ModelInferResponse got;
                    status = stub->ModelInfer(&context, row(1), &got);
                    if (status.ok()) ++answered;
                } while (status.ok());
                if (status.error_code() != grpc::StatusCode::UNAVAILABLE) ++others;
            });
        }
        while (answered < 50 && others == 0) std::this_thread::yield();
        EXPECT_EQ(server.front->drain(std::chrono::seconds(20)), 0u);
        clients.clear();
        EXPECT_EQ(others, 0);
    }
}

TEST(grpc, wrong_requests_are_refused_with_the_reason) {
    const grpc_server server;
    const auto refused = [&](const auto& change, grpc::StatusCode code, const std::string& why) {
        ModelInferRequest request = row(1, true);
        change(request);
        expect_refused(server.infer(request), code, why);
    };
    constexpr auto wrong = grpc::StatusCode::INVALID_ARGUMENT;
    using request = ModelInferRequest;
    refused([](request& r) { r.set_model_name("other"); }, grpc::StatusCode::NOT_FOUND, "there is no model 'other'");
    refused([](request& r) { r.set_model_version("2"); }, grpc::StatusCode::NOT_FOUND, "not loaded in version 2");
    refused([](request& r) { r.set_model_version("one"); }, grpc::StatusCode::NOT_FOUND, "'one' is no number");
    refused([](request& r) { r.clear_inputs(); }, wrong, "1 raw_input_contents, but 0 inputs");
    refused([](request& r) { r.clear_inputs(), r.clear_raw_input_contents(); }, wrong, "lacks input 'x'");
    refused([](request& r) { r.mutable_inputs(0)->set_name("z"); }, wrong, "no input 'z'; it has 'x'");
    refused([](request& r) { r.mutable_inputs(0)->set_datatype("FP31"); }, wrong, "'FP31' is not supported");
    refused([](request& r) { r.mutable_inputs(0)->set_datatype("FP64"); }, wrong, "the model takes FP32");
    refused([](request& r) { r.mutable_inputs(0)->set_shape(0, -1); }, wrong, "not an integer of at least 0");
    refused([](request& r) { r.mutable_inputs(0)->set_shape(0, std::int64_t{1} << 62); }, wrong, "is too large");
    refused([](request& r) { r.mutable_inputs(0)->set_shape(0, 2); }, wrong, "takes 16 bytes; the data has 8");
    refused(
        [](request& r) {
            for (int i = 0; i < 20; ++i) r.mutable_inputs(0)->add_shape(1);
        },
        wrong, "more than 16 dimensions");
    refused([](request& r) { *r.add_inputs() = r.inputs(0), r.add_raw_input_contents("12345678"); }, wrong,
            "input 'x' is there twice");
    refused([](request& r) { r.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1); }, wrong,
            "both fp32_contents and raw_input_contents");
    refused(
        [](request& r) {
            r.clear_raw_input_contents();
            r.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
        },
        wrong, "has int_contents; the datatype FP32 needs fp32_contents");
    refused([](request& r) { r.add_outputs()->set_name("z"); }, wrong, "no output 'z'; it has 'y'");
    refused([](request& r) { r.add_outputs()->set_name("y"), r.add_outputs()->set_name("y"); }, wrong,
            "output 'y' is there twice");
    refused([](request& r) { (*r.mutable_parameters())["sequence_id"].set_int64_param(1); }, wrong,
            "the model has none");
    refused([](request& r) { (*r.mutable_parameters())["sequence_id"].set_int64_param(-1); }, wrong,
            "'sequence_id' is not an integer");
    refused([](request& r) { (*r.mutable_parameters())["sequence_id"].set_string_param(std::string(129, 'a')); }, wrong,
            "'sequence_id' has 129 bytes; accepted are 128");
    refused([](request& r) { (*r.mutable_parameters())["sequence_end"].set_bool_param(true); }, wrong,
            "need a sequence_id");
    refused([](request& r) { (*r.mutable_parameters())["triton_color"].set_string_param("red"); }, wrong,
            "which this server does not support");
    refused([](request& r) { (*r.mutable_parameters())["timeout"].set_int64_param(-1); }, wrong, "'timeout' is not");
    expect_refused(server.infer(row(testing::bad_number)), wrong, "13 is out of range");
    EXPECT_TRUE(server.infer(row(1)).ok());
    expect_refused(server.infer(row(testing::deadly_number)), grpc::StatusCode::INTERNAL, "the device is lost");
}

// What clients of other servers send, and what is for a model's own code.
TEST(grpc, parameters_that_say_nothing_or_are_custom_are_passed_over) {
    const grpc_server server;
    ModelInferRequest with = row(1);
    auto& parameters = *with.mutable_parameters();
    parameters["sequence_id"].set_int64_param(0);
    parameters["sequence_start"].set_bool_param(false);
    parameters["priority"].set_uint64_param(0);
    parameters["color"].set_string_param("red");
    (*with.mutable_inputs(0)->mutable_parameters())["unit"].set_double_param(1.5);
    auto& output = *with.add_outputs();
    output.set_name("y");
    (*output.mutable_parameters())["classification"].set_int64_param(0);
    EXPECT_TRUE(server.infer(with).ok());
}

TEST(grpc, a_message_that_is_too_long_and_memory_that_is_in_use_are_refused) {
    const grpc_server small({.message_bytes = 10});
    EXPECT_EQ(small.infer(row(1)).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    const auto budget = std::make_shared<request_budget>(10'000);
    const grpc_server server({.budget = budget});
    EXPECT_TRUE(server.infer(row(1)).ok());
    testing::expect_given_back(*budget);
    EXPECT_FALSE(budget->take(10'001));
    ASSERT_TRUE(budget->take(9'990));
    expect_refused(server.infer(row(1)), grpc::StatusCode::UNAVAILABLE, "memory for requests is in use");
    budget->give(9'990);
}

// 64 KiB on its way, and some megabytes where all of it is parsed before it is looked at: the model has one input.
TEST(grpc, a_message_of_many_small_parts_takes_no_more_than_it_has) {
    ModelInferRequest request = row(1);
    for (int i = 0; i < 1 << 15; ++i) request.add_inputs();
    const auto budget = std::make_shared<request_budget>(request.ByteSizeLong());
    const grpc_server server({.budget = budget});
    expect_refused(server.infer(request), grpc::StatusCode::INVALID_ARGUMENT, "the model has no input ''");
    testing::expect_given_back(*budget);
    EXPECT_TRUE(server.infer(row(1)).ok());
}

// Of another call, which protobuf parses: what it may take then counts.
TEST(grpc, the_memory_of_parsed_messages_counts) {
    const auto budget = std::make_shared<request_budget>(10'000);
    const grpc_server server({.budget = budget});
    const auto ask = [&](std::size_t length) {
        grpc::ClientContext context;
        ModelReadyRequest request;
        request.set_name(std::string(length, 'm'));
        ModelReadyResponse got;
        return server.stub->ModelReady(&context, request, &got);
    };
    EXPECT_TRUE(ask(100).ok());
    testing::expect_given_back(*budget);
    expect_refused(ask(1000), grpc::StatusCode::UNAVAILABLE, "memory for requests is in use");
    expect_refused(ask(2 << 20), grpc::StatusCode::INVALID_ARGUMENT, "one of this call has at most 1048576");
    testing::expect_given_back(*budget);
}

// A message of several frames is not in one part of gRPC's memory.
// A message for which there is no memory.
class unparsable final : public google::protobuf::MessageLite {
public:
    std::string GetTypeName() const override { return "unparsable"; }
    MessageLite* New(google::protobuf::Arena*) const override { return nullptr; }
    void Clear() override {}
    bool IsInitialized() const override { return true; }
    void CheckTypeAndMergeFrom(const MessageLite&) override {}
    std::size_t ByteSizeLong() const override { return 0; }
    int GetCachedSize() const override { return 0; }
    const char* _InternalParse(const char*, google::protobuf::internal::ParseContext*) override {
        throw std::bad_alloc();
    }
    std::uint8_t* _InternalSerialize(std::uint8_t* to, google::protobuf::io::EpsCopyOutputStream*) const override {
        return to;
    }
};

TEST(grpc, what_a_message_has_charged_is_given_back_where_its_memory_runs_out) {
    request_budget budget(1 << 20);
    piece_queue turn;
    const grpc::Slice bytes("\x0a\x7f");  // a length is beyond the end
    const grpc::ByteBuffer message(&bytes, 1);
    unparsable to;
    EXPECT_THROW(small_message(budget, message, to, turn), std::bad_alloc);
    EXPECT_EQ(budget.bytes(), 0U);
    inference::ModelReadyRequest wrong;
    EXPECT_THROW(small_message(budget, message, wrong, turn), refusal);
    EXPECT_EQ(budget.bytes(), 0U);
    {
        const grpc::ByteBuffer none;
        const grpc::Slice name("\x0a\1m");
        const small_message parsed(budget, grpc::ByteBuffer(&name, 1), wrong, turn);
        EXPECT_EQ(wrong.name(), "m");
        EXPECT_GT(budget.bytes(), 0U);
        const small_message empty(budget, none, wrong, turn);
        EXPECT_EQ(wrong.name(), "");
    }
    EXPECT_EQ(budget.bytes(), 0U);
}

TEST(grpc, long_messages_are_read) {
    const auto budget = std::make_shared<request_budget>(10 << 20);
    const grpc_server server({.budget = budget});
    constexpr int rows = 100'000;
    std::vector<float> x(2 * rows);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000) + 10'000;
    for (const bool is_raw : {false, true}) {
        ModelInferRequest request = row(1);
        auto& input = *request.mutable_inputs(0);
        input.set_shape(0, rows);
        input.clear_contents();
        if (is_raw)
            request.add_raw_input_contents(x.data(), x.size() * sizeof(float));
        else
            input.mutable_contents()->mutable_fp32_contents()->Add(x.begin(), x.end());
        ModelInferResponse got;
        const grpc::Status status = server.infer(request, got);
        ASSERT_TRUE(status.ok()) << status.error_message();
        ASSERT_EQ(got.raw_output_contents_size(), 1);
        std::vector<float> y(2 * rows);
        ASSERT_EQ(got.raw_output_contents(0).size(), y.size() * sizeof(float));
        std::memcpy(y.data(), got.raw_output_contents(0).data(), y.size() * sizeof(float));
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 2 * x[i]) << i;
    }
    testing::expect_given_back(*budget);
}

class many_outputs final : public testing::fake_model {
public:
    many_outputs() {
        for (int i = 0; i < 1000; ++i)
            outputs_.push_back({"an output with a long name " + std::to_string(i), io::dtype::f32, {}});
    }
    const std::vector<nn::value_info>& outputs() const noexcept override { return outputs_; }

private:
    std::vector<nn::value_info> outputs_;
};

// A text that is longer than clients take would get them another status, RESOURCE_EXHAUSTED.
TEST(grpc, long_reasons_are_cut) {
    grpc_server server;
    server.fake = std::make_shared<many_outputs>();
    server.models->load("m");
    ModelInferRequest request = row(1);
    request.add_outputs()->set_name("absent");
    const grpc::Status got = server.infer(request);
    expect_refused(got, grpc::StatusCode::INVALID_ARGUMENT,
                   "the model has no output 'absent'; it has 'an output with a long name 0', ");
    EXPECT_TRUE(got.error_message().ends_with("...")) << got.error_message();
}

// Clients could not read it. The output is memory that nothing has touched, and is not copied.
TEST(grpc, an_answer_that_is_longer_than_a_message_may_be_is_refused) {
    constexpr std::size_t bytes = std::size_t{1} << 31;
    void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto model = served_model::make("m", 1, std::make_shared<testing::fake_model>(), {});
    infer_message request;
    request.outputs.push_back({0, {}});
    const std::vector<std::size_t> shape{bytes / 8, 2};
    const tensor_view output{io::dtype::f32, tensor_shape(shape), {static_cast<const std::byte*>(memory), bytes}};
    for (const bool is_streamed : {false, true}) {
        try {
            write_infer_answer(*model, "an id", request, {&output, 1}, is_streamed);
            ADD_FAILURE() << "it is written";
        } catch (const refusal& why) {
            EXPECT_EQ(why.kind(), refusal_kind::bad_request);
            EXPECT_THAT(why.why(),
                        HasSubstr("a message of gRPC has at most 2147483647: ask for fewer outputs or rows"));
        }
    }
    ::munmap(memory, bytes);
}

TEST(grpc, versions_with_shares_answer_in_turn) {
    const grpc_server server;
    testing::give_two_versions(server.folder / "m", R"({"shares": {"1": 3, "2": 1}})");
    server.models->load("m");
    int of_first = 0;
    for (int i = 0; i < 40; ++i) {
        ModelInferResponse got;
        ASSERT_TRUE(server.infer(row(1), got).ok());
        of_first += got.model_version() == "1" ? 1 : 0;
    }
    EXPECT_EQ(of_first, 30);
}

TEST(grpc, a_token_is_needed_but_not_for_health) {
    const grpc_server server({.clients = testing::client_with({"a-token-that-is-long"})});
    expect_refused(server.infer(row(1)), grpc::StatusCode::UNAUTHENTICATED, "a token is needed");
    for (const std::string token : {"Bearer a-token-that-is-lonG", "Bearer a-token-that-is-long"}) {
        grpc::ClientContext context;
        context.AddMetadata("authorization", token);
        ModelInferResponse got;
        const grpc::Status status = server.stub->ModelInfer(&context, row(1), &got);
        EXPECT_EQ(status.ok(), token.ends_with('g')) << status.error_message();
    }
    grpc::ClientContext context;
    ServerReadyResponse got;
    EXPECT_TRUE(server.stub->ServerReady(&context, {}, &got).ok());
    EXPECT_TRUE(got.ready());
}

// What is no message shows whether it was looked at.
TEST(grpc, no_message_is_looked_at_before_its_token) {
    const grpc_server server({.clients = testing::client_with({"a-token-that-is-long"})});
    for (const std::string method : {"ModelInfer", "ModelReady", "RepositoryModelLoad"}) {
        SCOPED_TRACE(method);
        const std::string token = "Bearer a-token-that-is-long";
        expect_refused(testing::call_with_bytes(server, method, "\x0a\x7f", "Bearer a-token-that-is-lonG"),
                       grpc::StatusCode::UNAUTHENTICATED, "a token is needed");
        expect_refused(testing::call_with_bytes(server, method, "\x0a\x7f", token), grpc::StatusCode::INVALID_ARGUMENT,
                       "the message is no ");
    }
}

TEST(grpc, a_full_queue_says_how_long_it_is) {
    const grpc_server server({}, R"({"queue": 1, "max_batch": 1, "caller_thread_us": 0})");
    std::future<grpc::Status> running, waiting;
    {
        const testing::held hold(*server.fake);
        running = std::async(std::launch::async, [&] { return server.infer(row(1)); });
        server.fake->wait_until_running();
        waiting = std::async(std::launch::async, [&] { return server.infer(row(1)); });
        while (server.models->find("m")->statistics().waiting == 0) std::this_thread::yield();
        grpc::ClientContext context;
        ModelInferResponse got;
        EXPECT_EQ(server.stub->ModelInfer(&context, row(1), &got).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
        const auto& metadata = context.GetServerTrailingMetadata();
        const auto length = metadata.find("queue-length");
        ASSERT_NE(length, metadata.end());
        EXPECT_EQ(std::string(length->second.data(), length->second.size()), "1");
        // A long one is refused unread: that there is no such input does not matter.
        ModelInferRequest unknown = row(1), long_one = row(1);
        unknown.mutable_inputs(0)->set_name("no such input");
        EXPECT_EQ(server.infer(unknown).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
        long_one.mutable_inputs(0)->set_name(std::string(20'000, 'x'));
        EXPECT_EQ(server.infer(long_one).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    }
    EXPECT_TRUE(running.get().ok());
    EXPECT_TRUE(waiting.get().ok());
}

TEST(grpc, what_is_late_or_cancelled_is_not_computed) {
    const grpc_server server({}, R"({"max_batch": 1, "caller_thread_us": 0})");
    const auto model = server.models->find("m");
    std::future<grpc::Status> running, late, cancelled;
    grpc::ClientContext context;
    {
        const testing::held hold(*server.fake);
        running = std::async(std::launch::async, [&] { return server.infer(row(1)); });
        server.fake->wait_until_running();
        ModelInferResponse ignored;
        EXPECT_EQ(server.infer(row(2), ignored, 1s).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
        cancelled = std::async(std::launch::async, [&] {
            ModelInferResponse got;
            return server.stub->ModelInfer(&context, row(3), &got);
        });
        while (model->statistics().waiting < 2) std::this_thread::yield();
        context.TryCancel();
        EXPECT_EQ(cancelled.get().error_code(), grpc::StatusCode::CANCELLED);
        std::this_thread::sleep_for(100ms);  // the server hears of it
    }
    EXPECT_TRUE(running.get().ok());
    while (model->statistics().waiting != 0) std::this_thread::yield();
    EXPECT_TRUE(server.infer(row(4)).ok());
    EXPECT_EQ(server.fake->batches().size(), 2U);
    EXPECT_EQ(model->statistics().refused_late + model->statistics().cancelled, 2U);
}

TEST(grpc, loads_and_unloads_where_it_may) {
    const auto change = [](const grpc_server& server, bool loads, const std::string& name = "m") {
        grpc::ClientContext context;
        RepositoryModelLoadRequest load;
        load.set_model_name(name);
        RepositoryModelLoadResponse loaded;
        if (loads) return server.stub->RepositoryModelLoad(&context, load, &loaded);
        RepositoryModelUnloadRequest unload;
        unload.set_model_name(name);
        RepositoryModelUnloadResponse unloaded;
        return server.stub->RepositoryModelUnload(&context, unload, &unloaded);
    };
    const auto state = [](const grpc_server& server) {
        grpc::ClientContext context;
        RepositoryIndexResponse got;
        EXPECT_TRUE(server.stub->RepositoryIndex(&context, {}, &got).ok());
        return got.models_size() == 1 ? got.models(0).state() : "";
    };
    const grpc_server server;
    EXPECT_EQ(state(server), "READY");
    EXPECT_TRUE(change(server, false).ok());
    EXPECT_EQ(state(server), "UNAVAILABLE");
    expect_refused(change(server, true, "other"), grpc::StatusCode::NOT_FOUND, "there is no model 'other'");
    EXPECT_TRUE(change(server, true).ok());
    EXPECT_TRUE(server.infer(row(1)).ok());
    const grpc_server closed({.repository_control = false});
    expect_refused(change(closed, false), grpc::StatusCode::PERMISSION_DENIED, "does not let clients");
}

TEST(grpc, a_drain_answers_what_was_accepted) {
    grpc_server server({}, R"({"caller_thread_us": 0})");
    std::future<grpc::Status> running;
    std::future<std::size_t> cut;
    {
        const testing::held hold(*server.fake);
        running = std::async(std::launch::async, [&] { return server.infer(row(1)); });
        server.fake->wait_until_running();
        cut = std::async(std::launch::async, [&] { return server.front->drain(20s); });
        while (server.models->is_ready()) std::this_thread::yield();
        EXPECT_EQ(server.infer(row(1)).error_code(), grpc::StatusCode::UNAVAILABLE);
    }
    EXPECT_TRUE(running.get().ok());
    EXPECT_EQ(cut.get(), 0U);
}

TEST(grpc, a_drain_says_what_it_cuts_off) {
    grpc_server server;
    std::future<grpc::Status> running;
    {
        const testing::held hold(*server.fake);
        running = std::async(std::launch::async, [&] { return server.infer(row(1)); });
        server.fake->wait_until_running();
        EXPECT_EQ(server.front->drain(50ms), 1U);
    }
    running.wait();  // it may still have its answer: its connection ends soon, not at once
}

// Its connection has ended, but the model has still to answer: to an event queue that must be there.
TEST(grpc, a_front_end_goes_when_its_last_call_is_answered) {
    grpc_server server({}, R"({"caller_thread_us": 0})");
    std::future<grpc::Status> running;
    std::future<void> goes;
    {
        const testing::held hold(*server.fake);
        running = std::async(std::launch::async, [&] { return server.infer(row(1)); });
        server.fake->wait_until_running();
        EXPECT_EQ(server.front->drain(50ms), 1U);
        running.wait();
        goes = std::async(std::launch::async, [&] { server.front.reset(); });
        EXPECT_EQ(goes.wait_for(500ms), std::future_status::timeout);
    }
    goes.get();
}

TEST(grpc, several_threads_take_requests) {
    const grpc_server server({.threads = 3});
    std::vector<std::jthread> clients;
    for (int client = 0; client < 6; ++client) {
        clients.emplace_back([&server, client] {
            const auto stub = server.client(grpc::InsecureChannelCredentials());
            for (int i = 0; i < 200; ++i) {
                const auto value = static_cast<float>(10'000 * (client + 1) + i);
                grpc::ClientContext context;
                ModelInferResponse got;
                const grpc::Status status = stub->ModelInfer(&context, row(value, true), &got);
                ASSERT_TRUE(status.ok()) << status.error_message();
                float y = 0;
                std::memcpy(&y, got.raw_output_contents(0).data(), sizeof(y));
                ASSERT_EQ(y, 2 * value);
            }
        });
    }
}

TEST(grpc, a_thread_that_spins_answers_and_ends) {
    for (const auto time : {1us, 200us, 1'000'000us}) {
        const grpc_server server({.threads = 2, .spin_time = time});
        for (int i = 0; i < 30; ++i) {
            EXPECT_TRUE(server.infer(row(1)).ok());
            if (i % 10 == 0) std::this_thread::sleep_for(2ms);  // it sleeps, or spins on
        }
        server.front->drain(30s);
    }
}

TEST(grpc, a_spin_time_out_of_range_is_refused) {
    for (const auto time : {-1us, 1'000'001us}) {
        try {
            const grpc_server server({.spin_time = time});
            FAIL() << "it listens";
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), errc::invalid_argument);
            EXPECT_THAT(failure.what(), HasSubstr("accepted is 0 to 1000000"));
        }
    }
}

TEST(grpc, a_number_of_threads_out_of_range_is_refused) {
    for (const std::size_t threads : {0U, 257U}) {
        try {
            const grpc_server server({.threads = threads});
            FAIL() << "it listens";
        } catch (const error& failure) {
            EXPECT_EQ(failure.code(), errc::invalid_argument);
            EXPECT_THAT(failure.what(), HasSubstr("accepted is 1 to 256"));
        }
    }
}

TEST(grpc, says_what_its_models_have_done) {
    const grpc_server server;
    ASSERT_TRUE(server.infer(row(1)).ok());
    const auto ask = [&](const std::string& name, const std::string& version, ModelStatisticsResponse& got) {
        grpc::ClientContext context;
        ModelStatisticsRequest request;
        request.set_name(name);
        request.set_version(version);
        return server.stub->ModelStatistics(&context, request, &got);
    };
    for (const std::string name : {"m", ""}) {
        ModelStatisticsResponse got;
        do {  // a batch is counted after its answers were sent
            ASSERT_TRUE(ask(name, "", got).ok());
            ASSERT_EQ(got.model_stats_size(), 1);
        } while (got.model_stats(0).execution_count() == 0);
        const auto& its = got.model_stats(0);
        EXPECT_EQ(its.name(), "m");
        EXPECT_EQ(its.version(), "1");
        EXPECT_EQ(its.inference_count(), 1U);
        EXPECT_EQ(its.inference_stats().success().count(), 1U);
        EXPECT_GT(its.inference_stats().success().ns(), 0U);
        EXPECT_GT(its.last_inference(), 1'700'000'000'000U);
        ASSERT_EQ(its.batch_stats_size(), 1);
        EXPECT_EQ(its.batch_stats(0).batch_size(), 1U);
        EXPECT_EQ(its.batch_stats(0).compute_infer().count(), 1U);
    }
    ModelStatisticsResponse ignored;
    expect_refused(ask("other", "", ignored), grpc::StatusCode::NOT_FOUND, "there is no model 'other'");
    expect_refused(ask("", "1", ignored), grpc::StatusCode::INVALID_ARGUMENT, "no name of a model");
}

TEST(grpc, counts_its_answers_by_their_status) {
    const grpc_server server;
    ASSERT_TRUE(server.infer(row(1)).ok());
    ASSERT_TRUE(server.infer(row(2)).ok());
    ModelInferRequest wrong = row(1);
    wrong.set_model_name("other");
    ASSERT_EQ(server.infer(wrong).error_code(), grpc::StatusCode::NOT_FOUND);
    const std::string text = server.front->metrics();
    EXPECT_THAT(text, HasSubstr("\nsluice_grpc_replies_total{code=\"OK\"} 2\n"));
    EXPECT_THAT(text, HasSubstr("\nsluice_grpc_replies_total{code=\"NOT_FOUND\"} 1\n"));
    EXPECT_THAT(text, HasSubstr("# TYPE sluice_grpc_unanswered_requests gauge\n"));
}

TEST(grpc, the_process_has_one_protobuf) {
    std::ifstream maps("/proc/self/maps");
    const std::string all{std::istreambuf_iterator<char>(maps), {}};
    EXPECT_THAT(all, HasSubstr("libprotobuf.so"));
    EXPECT_THAT(all, ::testing::Not(HasSubstr("libprotobuf-lite.so")));
}

TEST(grpc, tls_without_a_key_is_refused_and_all_of_it_where_it_is_not_built) {
    try {
        const grpc_server server({.tls = {.certificate = "/nowhere.pem"}});
        FAIL() << "it listens";
    } catch (const error& failure) {
        EXPECT_THAT(failure.what(),
                    HasSubstr(tls_supported() ? "both a certificate and its key" : "built without TLS: "));
    }
}

TEST(grpc, names_of_machines_and_ports_in_use_are_refused) {
    const grpc_server server;
    EXPECT_THROW(grpc_front(*server.models, {.address = "localhost", .port = 0}), error);
    EXPECT_THROW(grpc_front(*server.models, {.port = server.front->port()}), error);
}

}  // namespace
}  // namespace sluice::serve::grpc_tests
