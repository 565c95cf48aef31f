"""FastAPI and uvicorn with ONNX Runtime: POST /predict with {"data": [...]}. Arguments: MODEL.onnx PORT."""

import sys

import fastapi
import numpy
import onnxruntime
import pydantic
import uvicorn


class Row(pydantic.BaseModel):
    data: list[float]


options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
app = fastapi.FastAPI()


@app.get("/health")
async def health():
    return {}


@app.post("/predict")
async def predict(row: Row):
    output = session.run(None, {name: numpy.asarray(row.data, dtype=numpy.float32).reshape(1, -1)})[0]
    return {"data": output.reshape(-1).tolist()}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
