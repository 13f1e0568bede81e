// Builds a simulated server of models. It uses the standard library of Go only.
module rehearsal.invalid/model-server

go 1.26.0
