// SPDX-License-Identifier: Apache-2.0
#include "serve/http/endpoints.hpp"

namespace sluice::serve {

std::string_view openapi_text() {
    static constexpr std::string_view text = R"json({
"openapi": "3.0.3",
"info": {
  "title": "sluice serve",
  "version": "2",
  "description": "Open Inference Protocol (KServe v2) with the extensions binary_tensor_data, model_configuration, model_repository, statistics and, where the server is started with --shared-memory or --cuda-shared-memory, system_shared_memory or cuda_shared_memory."
},
"paths": {
  "/v2": {"get": {"summary": "The server's name, version and extensions", "responses": {
    "200": {"$ref": "#/components/responses/json"}}}},
  "/v2/health/live": {"get": {"summary": "Whether the process answers", "responses": {
    "200": {"$ref": "#/components/responses/json"}}}},
  "/v2/health/ready": {"get": {"summary": "Whether all models are ready and the server does not end", "responses": {
    "200": {"$ref": "#/components/responses/json"}, "503": {"$ref": "#/components/responses/error"}}}},
  "/v2/models/stats": {"get": {"summary": "Statistics of all models", "responses": {
    "200": {"$ref": "#/components/responses/json"}}}},
  "/v2/models/{model}": {"parameters": [{"$ref": "#/components/parameters/model"}],
    "get": {"summary": "Inputs, outputs and versions of a model", "responses": {
      "200": {"description": "The model", "content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/model_metadata"}}}},
      "404": {"$ref": "#/components/responses/error"}, "503": {"$ref": "#/components/responses/error"}}}},
  "/v2/models/{model}/versions/{version}": {"parameters": [
    {"$ref": "#/components/parameters/model"}, {"$ref": "#/components/parameters/version"}],
    "get": {"summary": "The same of one version", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "404": {"$ref": "#/components/responses/error"},
      "503": {"$ref": "#/components/responses/error"}}}},
  "/v2/models/{model}/ready": {"parameters": [{"$ref": "#/components/parameters/model"}],
    "get": {"summary": "Whether the model is ready", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "404": {"$ref": "#/components/responses/error"},
      "503": {"$ref": "#/components/responses/error"}}}},
  "/v2/models/{model}/versions/{version}/ready": {"parameters": [
    {"$ref": "#/components/parameters/model"}, {"$ref": "#/components/parameters/version"}],
    "get": {"summary": "The same of one version", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "404": {"$ref": "#/components/responses/error"},
      "503": {"$ref": "#/components/responses/error"}}}},
  "/v2/models/{model}/config": {"parameters": [{"$ref": "#/components/parameters/model"}],
    "get": {"summary": "What clients of Triton ask of a model's configuration", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "404": {"$ref": "#/components/responses/error"},
      "503": {"$ref": "#/components/responses/error"}}}},
  "/v2/models/{model}/versions/{version}/config": {"parameters": [
    {"$ref": "#/components/parameters/model"}, {"$ref": "#/components/parameters/version"}],
    "get": {"summary": "The same of one version", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "404": {"$ref": "#/components/responses/error"},
      "503": {"$ref": "#/components/responses/error"}}}},
  "/v2/models/{model}/stats": {"parameters": [{"$ref": "#/components/parameters/model"}],
    "get": {"summary": "Statistics of a model", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "404": {"$ref": "#/components/responses/error"},
      "503": {"$ref": "#/components/responses/error"}}}},
  "/v2/models/{model}/versions/{version}/stats": {"parameters": [
    {"$ref": "#/components/parameters/model"}, {"$ref": "#/components/parameters/version"}],
    "get": {"summary": "The same of one version", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "404": {"$ref": "#/components/responses/error"},
      "503": {"$ref": "#/components/responses/error"}}}},
  "/v2/models/{model}/infer": {"parameters": [{"$ref": "#/components/parameters/model"}],
    "post": {"summary": "The outputs for these inputs", "requestBody": {"$ref": "#/components/requestBodies/infer"},
      "responses": {"200": {"$ref": "#/components/responses/infer"}, "default": {"$ref": "#/components/responses/error"}}}},
  "/v2/models/{model}/versions/{version}/infer": {"parameters": [
    {"$ref": "#/components/parameters/model"}, {"$ref": "#/components/parameters/version"}],
    "post": {"summary": "The same of one version", "requestBody": {"$ref": "#/components/requestBodies/infer"},
      "responses": {"200": {"$ref": "#/components/responses/infer"}, "default": {"$ref": "#/components/responses/error"}}}},
  "/v2/repository/index": {"post": {"summary": "The models of the repository", "requestBody": {
    "content": {"application/json": {"schema": {"type": "object", "additionalProperties": false,
      "properties": {"ready": {"type": "boolean"}}}}}},
    "responses": {"200": {"$ref": "#/components/responses/json"}, "400": {"$ref": "#/components/responses/error"}}}},
  "/v2/repository/models/{model}/load": {"parameters": [{"$ref": "#/components/parameters/model"}],
    "post": {"summary": "Loads the model, or what its files are now", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "default": {"$ref": "#/components/responses/error"}}}},
  "/v2/repository/models/{model}/unload": {"parameters": [{"$ref": "#/components/parameters/model"}],
    "post": {"summary": "Unloads the model when its last request is answered", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "default": {"$ref": "#/components/responses/error"}}}},
  "/v2/systemsharedmemory/status": {"get": {"summary": "All regions of shared memory", "responses": {
    "200": {"$ref": "#/components/responses/json"}, "403": {"$ref": "#/components/responses/error"}}}},
  "/v2/systemsharedmemory/region/{region}/status": {"parameters": [{"$ref": "#/components/parameters/region"}],
    "get": {"summary": "One region", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "default": {"$ref": "#/components/responses/error"}}}},
  "/v2/systemsharedmemory/region/{region}/register": {"parameters": [{"$ref": "#/components/parameters/region"}],
    "post": {"summary": "Registers a part of an object of shared memory of the server's machine",
      "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object",
        "required": ["key", "byte_size"], "additionalProperties": false, "properties": {
          "key": {"type": "string", "description": "The name of the object, as shm_open takes it"},
          "offset": {"type": "integer", "minimum": 0}, "byte_size": {"type": "integer", "minimum": 1}}}}}},
      "responses": {"200": {"$ref": "#/components/responses/json"}, "default": {"$ref": "#/components/responses/error"}}}},
  "/v2/systemsharedmemory/unregister": {"post": {"summary": "Forgets all regions", "responses": {
    "200": {"$ref": "#/components/responses/json"}, "403": {"$ref": "#/components/responses/error"}}}},
  "/v2/systemsharedmemory/region/{region}/unregister": {"parameters": [{"$ref": "#/components/parameters/region"}],
    "post": {"summary": "Forgets the region; requests that use it are answered", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "default": {"$ref": "#/components/responses/error"}}}},
  "/v2/cudasharedmemory/status": {"get": {"summary": "All regions of memory on GPUs", "responses": {
    "200": {"$ref": "#/components/responses/json"}, "403": {"$ref": "#/components/responses/error"}}}},
  "/v2/cudasharedmemory/region/{region}/status": {"parameters": [{"$ref": "#/components/parameters/region"}],
    "get": {"summary": "One region of memory on a GPU", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "default": {"$ref": "#/components/responses/error"}}}},
  "/v2/cudasharedmemory/region/{region}/register": {"parameters": [{"$ref": "#/components/parameters/region"}],
    "post": {"summary": "Registers memory that a process of the server's machine has on a GPU",
      "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object",
        "required": ["raw_handle", "device_id", "byte_size"], "additionalProperties": false, "properties": {
          "raw_handle": {"type": "object", "required": ["b64"], "additionalProperties": false, "properties": {
            "b64": {"type": "string", "description": "The base64 of the 64 bytes of a cudaIpcMemHandle_t"}}},
          "device_id": {"type": "integer", "minimum": 0, "description": "CUDA's number of the GPU"},
          "byte_size": {"type": "integer", "minimum": 1}}}}}},
      "responses": {"200": {"$ref": "#/components/responses/json"}, "default": {"$ref": "#/components/responses/error"}}}},
  "/v2/cudasharedmemory/unregister": {"post": {"summary": "Forgets all regions of memory on GPUs", "responses": {
    "200": {"$ref": "#/components/responses/json"}, "403": {"$ref": "#/components/responses/error"}}}},
  "/v2/cudasharedmemory/region/{region}/unregister": {"parameters": [{"$ref": "#/components/parameters/region"}],
    "post": {"summary": "Forgets the region; requests that use it are answered", "responses": {
      "200": {"$ref": "#/components/responses/json"}, "default": {"$ref": "#/components/responses/error"}}}},
  "/v2/timeline": {"get": {"summary": "What happened when to the last requests to models, at most 512",
    "responses": {"200": {"description": "Trace events, as Perfetto and chrome://tracing read them: the stages of each request, and the batches",
      "content": {"application/json": {"schema": {"type": "object", "required": ["traceEvents"], "properties": {
        "displayTimeUnit": {"type": "string"},
        "traceEvents": {"type": "array", "items": {"type": "object", "required": ["name", "ph", "pid", "tid"], "properties": {
          "name": {"type": "string"}, "cat": {"type": "string"}, "ph": {"type": "string"},
          "pid": {"type": "integer"}, "tid": {"type": "integer"},
          "ts": {"type": "number", "description": "Microseconds"}, "dur": {"type": "number"},
          "args": {"type": "object"}}}}}}}}}}}},
  "/v2/timeline.svg": {"get": {"summary": "A picture of the last 100 requests", "responses": {
    "200": {"description": "A picture", "content": {"image/svg+xml": {"schema": {"type": "string"}}}}}}},
  "/metrics": {"get": {"summary": "Metrics for Prometheus", "responses": {
    "200": {"description": "Text of version 0.0.4", "content": {"text/plain": {"schema": {"type": "string"}}}}}}}
},
"components": {
  "parameters": {
    "model": {"name": "model", "in": "path", "required": true,
      "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"}},
    "region": {"name": "region", "in": "path", "required": true,
      "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"}},
    "version": {"name": "version", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 1}}
  },
  "requestBodies": {"infer": {"required": true, "content": {
    "application/json": {"schema": {"$ref": "#/components/schemas/infer_request"}},
    "application/octet-stream": {"schema": {"type": "string", "format": "binary", "description":
      "The JSON, of the length that Inference-Header-Content-Length says, and the binary data of the inputs"}}}}},
  "responses": {
    "json": {"description": "JSON", "content": {"application/json": {"schema": {}}}},
    "infer": {"description": "The outputs", "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/infer_response"}},
      "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
    "error": {"description": "Why there is no answer", "content": {"application/json": {"schema": {
      "type": "object", "required": ["error"], "properties": {
        "error": {"type": "string"}, "queue_length": {"type": "integer"}}}}}}
  },
  "schemas": {
    "datatype": {"type": "string", "enum": ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32",
      "INT64", "FP16", "BF16", "FP32", "FP64"]},
    "tensor_metadata": {"type": "object", "required": ["name", "datatype", "shape"], "properties": {
      "name": {"type": "string"}, "datatype": {"$ref": "#/components/schemas/datatype"},
      "shape": {"type": "array", "items": {"type": "integer"}}}},
    "model_metadata": {"type": "object", "required": ["name", "platform", "inputs", "outputs"], "properties": {
      "name": {"type": "string"}, "versions": {"type": "array", "items": {"type": "string"}},
      "platform": {"type": "string"},
      "inputs": {"type": "array", "items": {"$ref": "#/components/schemas/tensor_metadata"}},
      "outputs": {"type": "array", "items": {"$ref": "#/components/schemas/tensor_metadata"}},
      "properties": {"type": "object", "additionalProperties": {"type": "string"}}}},
    "data": {"type": "array", "items": {}},
    "infer_request": {"type": "object", "required": ["inputs"], "additionalProperties": false, "properties": {
      "id": {"type": "string"},
      "model_name": {"type": "string", "description": "The name of the path, again"},
      "parameters": {"type": "object", "properties": {
        "binary_data_output": {"type": "boolean"},
        "priority": {"type": "integer", "minimum": 0, "description": "1 comes first; 0: the model's default"},
        "sequence_id": {"oneOf": [{"type": "integer", "minimum": 0}, {"type": "string", "maxLength": 128}],
          "description": "Of a network with memory: the sequence that the request is a step of; 0 and \"\": none"},
        "sequence_start": {"type": "boolean"}, "sequence_end": {"type": "boolean"},
        "sequence_step": {"type": "integer", "minimum": 0},
        "timeout": {"type": "integer", "minimum": 0, "description": "Microseconds; 0: none"}}},
      "inputs": {"type": "array", "items": {"type": "object", "required": ["name", "datatype", "shape"],
        "additionalProperties": false, "properties": {
          "name": {"type": "string"}, "datatype": {"$ref": "#/components/schemas/datatype"},
          "shape": {"type": "array", "maxItems": 16, "items": {"type": "integer", "minimum": 0}},
          "parameters": {"type": "object", "properties": {
            "binary_data_size": {"type": "integer", "minimum": 0},
            "shared_memory_region": {"type": "string"},
            "shared_memory_byte_size": {"type": "integer", "minimum": 0},
            "shared_memory_offset": {"type": "integer", "minimum": 0}}},
          "data": {"$ref": "#/components/schemas/data"}}}},
      "outputs": {"type": "array", "items": {"type": "object", "required": ["name"], "additionalProperties": false,
        "properties": {"name": {"type": "string"},
          "parameters": {"type": "object", "properties": {
            "binary_data": {"type": "boolean"},
            "shared_memory_region": {"type": "string"},
            "shared_memory_byte_size": {"type": "integer", "minimum": 0},
            "shared_memory_offset": {"type": "integer", "minimum": 0}}}}}}}},
    "infer_response": {"type": "object", "required": ["model_name", "outputs"], "properties": {
      "model_name": {"type": "string"}, "model_version": {"type": "string"}, "id": {"type": "string"},
      "outputs": {"type": "array", "items": {"type": "object", "required": ["name", "datatype", "shape"], "properties": {
        "name": {"type": "string"}, "datatype": {"$ref": "#/components/schemas/datatype"},
        "shape": {"type": "array", "items": {"type": "integer"}},
        "parameters": {"type": "object", "properties": {"binary_data_size": {"type": "integer"},
          "shared_memory_region": {"type": "string"}, "shared_memory_byte_size": {"type": "integer"},
          "shared_memory_offset": {"type": "integer"}}},
        "data": {"$ref": "#/components/schemas/data"}}}}}}
  }
}
})json";
    return text;
}

}  // namespace sluice::serve
