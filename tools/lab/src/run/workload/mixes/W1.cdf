# W1: keys and values of a memcached cluster (Facebook's ETC). Mean 188 bytes.
#
# Source: Atikoglu et al., "Workload analysis of a large-scale key-value store" (SIGMETRICS 2012), as workload W1 of
# Montazeri et al., "Homa" (SIGCOMM 2018). Breakpoints of the distribution; what lies between two lines grows with the
# logarithm of the size.
#
# bytes, share of the messages that are at most so long
1 0.00583
2 0.18403
3 0.27642
4 0.2766
5 0.304
6 0.30465
7 0.31071
8 0.31094
9 0.31931
10 0.32768
11 0.41757
12 0.41849
13 0.42175
14 0.44155
15 0.47
20 0.48411
30 0.50447
47 0.54213
65 0.57658
84 0.6104
110 0.64916
151 0.70222
209 0.75905
297 0.82082
398 0.86806
503 0.90097
636 0.9285
804 0.95036
1015 0.96684
1321 0.97983
1770 0.98896
2441 0.9946
3570 0.99782
5070 0.9991
7415 0.999666
11164 0.999889
16810 0.999964
26062 0.9999894
40406 0.9999969
64501 0.9999992
100000 1
