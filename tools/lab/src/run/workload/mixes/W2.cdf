# W2: calls of a search application at Google. Mean 441 bytes.
#
# Source: workload W2 of Montazeri et al., "Homa" (SIGCOMM 2018), by Sivaram, "Some measured Google flow sizes" (2008).
# Breakpoints of the distribution; what lies between two lines grows with the logarithm of the size.
#
# bytes, share of the messages that are at most so long
2 0.0756
3 0.1323
4 0.1512
8 0.1701
32 0.189
40 0.24398
49 0.28521
64 0.32644
128 0.3417
160 0.39056
197 0.4272
256 0.46384
301 0.59781
341 0.68712
394 0.77643
465 0.86574
512 0.9104
1024 0.95811
2048 0.98101
4096 0.995324
8192 0.998425
16384 0.998902
32768 0.99914
65536 0.999349
131072 0.999871
262144 0.9999752
524288 0.9999827
704160 0.9999879
1071908 0.9999931
1644453 0.9999965
3529904 1
