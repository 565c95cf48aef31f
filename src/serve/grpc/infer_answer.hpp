// SPDX-License-Identifier: Apache-2.0
// The messages of answers: written once, into the memory that gRPC sends.
#pragma once

#include <grpcpp/support/slice.h>

#include <span>
#include <string_view>

#include "serve/grpc/infer_message.hpp"
#include "sluice/serve/served_model.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {

// A ModelInferResponse, or with `is_streamed` a ModelStreamInferResponse that has it. `outputs` are all of the model's;
// those that the request has chosen are written, as raw contents or into shared memory. Throws refusal (bad_request)
// for one that does not fit there, and for a message that is longer than gRPC's may be.
grpc::Slice write_infer_answer(const served_model& model, std::string_view id, const infer_message& request,
                               std::span<const tensor_view> outputs, bool is_streamed);

// A ModelStreamInferResponse that says why there is no answer. `id`: the request's.
grpc::Slice write_stream_refusal(std::string_view id, std::string_view why);

}  // namespace sluice::serve
