"""headwise beside PyTorch, ONNX Runtime and OpenVINO. Started by scripts/peers.sh."""
