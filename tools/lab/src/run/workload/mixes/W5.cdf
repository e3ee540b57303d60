# W5: flows of web search, the DCTCP workload. Mean 2.56 MB.
#
# Source: Alizadeh et al., "Data center TCP" (SIGCOMM 2010), as workload W5 of Montazeri et al., "Homa" (SIGCOMM 2018).
# Breakpoints of the distribution; what lies between two lines grows with the logarithm of the size.
#
# bytes, share of the messages that are at most so long
1470 0.025
2940 0.05
5880 0.1
8820 0.15
13230 0.17143
19110 0.2
27930 0.3
38220 0.35
48510 0.4
63210 0.465
77910 0.53
130830 0.5615
195510 0.6
364560 0.62154
588000 0.65
784980 0.67509
980490 0.7
1470000 0.75
1959510 0.8
2988510 0.835
3944010 0.8675
4899510 0.9
10291470 0.9025
15190980 0.9275
19600980 0.95
24500490 0.975
29400000 1
