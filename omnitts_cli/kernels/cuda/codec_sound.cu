// The sum that ends the codec: each sample from the products of seven columns with their taps (codec_last.cu).
#define OUTPUTS 1
#define INPUTS 1
#include "codec_tile.cuh"
struct Sound {
  const float *parts;                       // [streams, past + columns, 8]
  const float *bias;
  float *sound;                             // [streams, columns]
  int columns, count, past;                 // columns of a stream, of all; taps - 1
};
extern "C" __global__ void sound(const Sound p) {
  wait_for_previous();
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const float *from = p.parts + ((s64)(i / p.columns) * (p.past + p.columns) + i % p.columns) * 8;
  float sum = p.bias[0];
  for (int tap = 0; tap <= p.past; tap++) sum += from[tap * 9];
  p.sound[i] = fminf(fmaxf(sum, -1.f), 1.f);
}
